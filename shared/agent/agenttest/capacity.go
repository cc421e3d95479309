package agenttest

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

func capacity(t *testing.T, w World) {
	org := w.Tenant(t, plan.Hobby)
	a := org.Create(plan.Hobby)
	refused := Draft(plan.Hobby)
	_, err := w.Store.Create(org.Ctx, refused)
	want := map[string]any{
		"limit": "agents", "current": int64(1), "max": int64(1), "plan": plan.Hobby,
		"upgrade_to": plan.Starter,
	}
	if f := fault.From(err); f == nil || f.Kind != fault.PaymentRequired || !reflect.DeepEqual(f.Meta, want) {
		t.Errorf("an agent too many: %v, want payment required with %v", err, want)
	}
	if _, err := w.Store.Get(org.Ctx, refused.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the refused agent: %v, want not found", err)
	}
	if n := len(org.Entries()); n != 1 {
		t.Errorf("%d audit entries, want 1", n)
	}
	deleted := org.change(a.ID, act(agent.Delete))
	if got, want := org.Usage(), sum(t, deleted); got != want || got.Agents != 0 || got.StorageBytes == 0 {
		t.Errorf("usage %+v after a deletion was accepted, want %+v", got, want)
	}
	// The slot is free, but the volume of the deleted agent still takes the storage.
	if _, err := w.Store.Create(org.Ctx, Draft(plan.Hobby)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("storage taken twice: %v, want payment required", err)
	}
	if err := w.Records.Remove(t.Context(), deleted); err != nil {
		t.Fatal(err)
	}
	org.Create(plan.Hobby)
}

// size: an organization that has the room for a larger agent may still not have one.
func size(t *testing.T, w World) {
	org := w.Tenant(t, plan.Startup)
	a := org.Create(plan.Hobby)
	_, created := w.Store.Create(org.Ctx, Draft(plan.Pro))
	_, changed := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		a.Plan = plan.Pro
		return nil
	})
	for what, err := range map[string]error{"creating": created, "growing to": changed} {
		if f := fault.From(err); f == nil || f.Kind != fault.PaymentRequired || f.Meta["limit"] != "resource_plan" {
			t.Errorf("%s an agent larger than the plan's: %v, want payment required for the resource_plan", what, err)
		}
	}
	a = org.change(a.ID, func(a *agent.Agent) error {
		a.Plan = plan.Startup
		return nil
	})
	if got, want := org.Usage(), sum(t, a); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func capacityOfStopped(t *testing.T, w World) {
	org := w.Tenant(t, plan.Starter)
	first := org.Create(plan.Starter)
	org.change(first.ID, act(agent.Stop))
	org.Create(plan.Starter)
	org.Create(plan.Starter)
	org.change(first.ID, act(agent.Start))
	if got := org.Usage(); got.Agents != 3 || got.CPUMillis != 3000 {
		t.Errorf("usage %+v, want three starter agents", got)
	}
	// On a smaller plan, what runs goes on, and nothing is started.
	org.change(first.ID, act(agent.Stop))
	if err := w.SetPlan(t.Context(), org.ID, plan.Hobby); err != nil {
		t.Fatal(err)
	}
	before := org.load(first.ID)
	if _, err := w.Store.Change(org.Ctx, first.ID, act(agent.Start)); !fault.Is(err, fault.PaymentRequired) {
		t.Errorf("start over the limit: %v, want payment required", err)
	}
	if got := org.load(first.ID); !reflect.DeepEqual(got, before) {
		t.Errorf("a refused start changed the record:\n got %+v\nwant %+v", got, before)
	}
	org.change(first.ID, act(agent.Delete))
}

func lastSlot(t *testing.T, w World) {
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
		t.Errorf("the loser: %v, want payment required", err)
	}
	if got := org.Usage().Agents; got != 1 {
		t.Errorf("usage of %d agents, want 1", got)
	}
}

func manyCreators(t *testing.T, w World) {
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
	if got, want := org.Usage(), sum(t, agents...); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
	if n := len(org.Entries()); n != creators {
		t.Errorf("%d audit entries, want %d", n, creators)
	}
}

// randomOperations lets clients and workers do what they like at once, and then recounts.
func randomOperations(t *testing.T, w World) {
	const clients, operations = 4, 25
	org := w.Tenant(t, plan.Starter)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 1))
			for range operations {
				if err := operate(w, org, random); err != nil {
					t.Errorf("client %d: %v", client, err)
				}
			}
		})
	}
	all.Wait()
	left := listAll(t, w.Store, org.Ctx, agent.Filter{}, 100)
	if got, want := org.Usage(), sum(t, left...); got != want {
		t.Errorf("usage %+v with %d agents, want %+v", got, len(left), want)
	}
	for _, a := range left {
		if err := w.Records.Remove(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	if got := org.Usage(); got != (organization.Usage{}) {
		t.Errorf("usage %+v when all agents are gone", got)
	}
}

// operate does one random thing to a random agent. Refusals are part of the game.
func operate(w World, org Tenant, random *rand.Rand) error {
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
		err = w.Records.Remove(org.Ctx, a)
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
