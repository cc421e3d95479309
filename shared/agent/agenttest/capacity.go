package agenttest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func createBeyondPlan(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Hobby)
	a := org.Create(plan.Hobby)
	refused := Draft(plan.Hobby)
	_, err := w.Store.Create(org.Ctx, refused)
	want := map[string]any{
		"limit": "agents", "current": int64(1), "max": int64(1), "plan": plan.Hobby, "upgrade_to": plan.Starter,
	}
	if f := fault.From(err); f == nil || f.Kind != fault.PaymentRequired || !reflect.DeepEqual(f.Meta, want) {
		t.Errorf("creating an agent too many: %v, want PaymentRequired with %v", err, want)
	}
	if _, err := w.Store.Get(org.Ctx, refused.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get of the refused agent: %v, want NotFound", err)
	}
	equal(t, "number of audit entries", len(org.Entries()), 1)
	deleted := org.change(a.ID, act(agent.Delete))
	equal(t, "usage after the deletion was accepted", org.Usage(), organization.Usage{})
	next := org.Create(plan.Hobby)
	equal(t, "usage of the next agent", org.Usage(), sum(next))
	if err := w.Records.Remove(t.Context(), deleted, agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "usage after the deleted agent was removed", org.Usage(), sum(next))
}

// agentLargerThanPlan wants an agent of a larger plan than the organization's to be refused, even where its size fits.
func agentLargerThanPlan(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Startup)
	a := org.Create(plan.Hobby)
	_, created := w.Store.Create(org.Ctx, Draft(plan.Pro))
	_, changed := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		a.Plan = plan.Pro
		return nil
	})
	for name, err := range map[string]error{"Create": created, "Change": changed} {
		if f := fault.From(err); f == nil || f.Kind != fault.PaymentRequired || f.Meta["limit"] != "resource_plan" {
			t.Errorf("%s to an agent of a larger plan: %v, want PaymentRequired for resource_plan", name, err)
		}
	}
	a = org.change(a.ID, func(a *agent.Agent) error {
		a.Plan = plan.Startup
		return nil
	})
	equal(t, "usage", org.Usage(), sum(a))
}

// startLargerThanPlan moves an organization to a smaller plan that has room for its agent, but not for agents of that
// size: billing would pause the agent.
func startLargerThanPlan(t testing.TB, w Fixture) {
	for name, row := range map[string]struct{ down, up agent.Trigger }{
		"start":  {down: agent.Stop, up: agent.Start},
		"resume": {down: agent.Pause, up: agent.Resume},
	} {
		org := w.Tenant(t, plan.Startup)
		a := org.Create(plan.Startup)
		if _, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.BecameReady(Now()) }); err != nil {
			t.Fatal(err)
		}
		org.change(a.ID, act(row.down))
		if err := w.SetPlan(t.Context(), org.ID, plan.Starter); err != nil {
			t.Fatal(err)
		}
		_, err := w.Store.Change(org.Ctx, a.ID, act(row.up))
		if f := fault.From(err); f == nil || f.Kind != fault.PaymentRequired || f.Meta["limit"] != "resource_plan" {
			t.Errorf("%s of an agent of a larger plan: %v, want PaymentRequired for resource_plan", name, err)
		}
		if err := w.SetPlan(t.Context(), org.ID, plan.Startup); err != nil {
			t.Fatal(err)
		}
		org.change(a.ID, act(row.up))
	}
}

func stoppedFreesCompute(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Starter)
	first := org.Create(plan.Starter)
	org.change(first.ID, act(agent.Stop))
	org.Create(plan.Starter)
	org.Create(plan.Starter)
	org.change(first.ID, act(agent.Start))
	usage := org.Usage()
	equal(t, "agents of three starter agents", usage.Agents, 3)
	equal(t, "CPU of three starter agents", usage.CPUMillis, 3000)
	// On a smaller plan, running agents continue, but no agent may start.
	org.change(first.ID, act(agent.Stop))
	if err := w.SetPlan(t.Context(), org.ID, plan.Hobby); err != nil {
		t.Fatal(err)
	}
	before := org.load(first.ID)
	if _, err := w.Store.Change(org.Ctx, first.ID, act(agent.Start)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("start over the limit: %v, want PaymentRequired", err)
	}
	sameRecord(t, "the record after a refused start", org.load(first.ID), before)
	org.change(first.ID, act(agent.Delete))
}

func raceForLastSlot(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Hobby)
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { _, errs[i] = w.Store.Create(org.Ctx, Draft(plan.Hobby)) })
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("two creations for one slot: %v and %v, want exactly one to succeed", errs[0], errs[1])
	}
	if err := errors.Join(errs...); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("the refused creation: %v, want PaymentRequired", err)
	}
	equal(t, "agents in the usage", org.Usage().Agents, 1)
}

func concurrentCreations(t testing.TB, w Fixture) {
	const creators = 16
	org := w.Tenant(t, plan.Enterprise)
	agents := make([]agent.Agent, creators)
	errs := make([]error, creators)
	var all sync.WaitGroup
	for i := range creators {
		all.Go(func() { agents[i], errs[i] = w.Store.Create(org.Ctx, Draft(plan.Hobby)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("concurrent creations: %v", err)
	}
	equal(t, "usage", org.Usage(), sum(agents...))
	equal(t, "number of audit entries", len(org.Entries()), creators)
}

// randomOperations runs random operations of clients and workers concurrently and then recounts the usage.
func randomOperations(t testing.TB, w Fixture) {
	const clients, operations = 4, 25
	org := w.Tenant(t, plan.Starter)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for range operations {
				if err := operateRandomly(w, org, random); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			}
		})
	}
	all.Wait()
	left := listAll(t, w.Store, org.Ctx, agent.Filter{}, 100)
	equal(t, fmt.Sprintf("usage of %d agents", len(left)), org.Usage(), sum(left...))
	for _, a := range left {
		if err := w.Records.Remove(t.Context(), a, agent.Deletion{}); err != nil {
			t.Fatal(err)
		}
	}
	equal(t, "usage after all agents were removed", org.Usage(), organization.Usage{})
}

// operateRandomly does one random operation on a random agent. A refusal is not an error.
func operateRandomly(w Fixture, org Tenant, random *rand.Rand) error {
	present, err := w.Store.List(org.Ctx, agent.Filter{}, pageOf(10, ""))
	if err != nil {
		return err
	}
	if len(present.Items) == 0 || random.IntN(4) == 0 {
		_, err := w.Store.Create(org.Ctx, Draft([]plan.ID{plan.Hobby, plan.Starter}[random.IntN(2)]))
		return unlessRefused(err)
	}
	a := present.Items[random.IntN(len(present.Items))]
	triggers := []agent.Trigger{agent.Stop, agent.Start, agent.Pause, agent.Resume, agent.Restart, agent.Delete}
	switch n := random.IntN(len(triggers) + 2); {
	case n < len(triggers):
		_, err = w.Store.Change(org.Ctx, a.ID, act(triggers[n]))
	case a.Status == agent.Deleting:
		err = w.Records.Remove(org.Ctx, a, agent.Deletion{})
	default:
		_, err = w.Records.Update(org.Ctx, a, func(a *agent.Agent) {
			if a.Status == agent.Provisioning {
				a.BecameReady(Now())
			}
		})
	}
	return unlessRefused(err)
}

func unlessRefused(err error) error {
	if errors.Is(err, agent.ErrSuperseded) || fault.Is(err, fault.PaymentRequired) || fault.Is(err, fault.Conflict) ||
		fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}
