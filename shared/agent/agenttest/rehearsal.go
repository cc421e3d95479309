package agenttest

import (
	"context"
	"reflect"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/rehearsal"
)

// rehearsalTests check the promises to calls that rehearse.
func rehearsalTests() map[string]func(testing.TB, Fixture) {
	return map[string]func(testing.TB, Fixture){
		"rehearsed creation writes nothing":            rehearsedCreation,
		"rehearsed change writes nothing":              rehearsedChange,
		"rehearsed empty change":                       rehearsedEmptyChange,
		"rehearsed changes build on each other":        rehearsedChanges,
		"rehearsed creations are refused as real ones": rehearsedRefusals,
		"rehearsed creations do not count":             rehearsedCreationsDoNotCount,
		"a rehearsal leaves an Idempotency-Key unused": rehearsedKey,
	}
}

// rehearsing returns the context of a rehearsed call, and what it records.
func (n Tenant) rehearsing() (context.Context, *rehearsal.Rehearsal) {
	r := &rehearsal.Rehearsal{}
	return call.Derive(n.Ctx, func(c *call.Call) { c.Rehearsal = r }), r
}

// wantUnwritten runs rehearse and reports what it wrote.
func (n Tenant) wantUnwritten(id string, rehearse func(context.Context, *rehearsal.Rehearsal)) {
	n.t.Helper()
	record := func() (agent.Agent, bool) {
		a, err := n.fixture.Store.Get(n.Ctx, id)
		if err != nil && !fault.Is(err, fault.NotFound) {
			n.t.Fatal(err)
		}
		return a, err == nil
	}
	before, existed := record()
	usage, entries, nudges := n.Usage(), len(n.Entries()), n.fixture.Nudges.Count(id)
	rehearse(n.rehearsing())
	after, exists := record()
	equal(n.t, "the agent has a record after the rehearsal", exists, existed)
	sameRecord(n.t, "the record after the rehearsal", after, before)
	equal(n.t, "usage after the rehearsal", n.Usage(), usage)
	equal(n.t, "audit entries after the rehearsal", len(n.Entries()), entries)
	equal(n.t, "nudges after the rehearsal", n.fixture.Nudges.Count(id), nudges)
}

func rehearsedCreation(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	draft := Draft(plan.Starter)
	org.wantUnwritten(draft.ID, func(ctx context.Context, r *rehearsal.Rehearsal) {
		created, err := w.Store.Create(ctx, draft)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "OrganizationID of the rehearsed agent", created.OrganizationID, org.ID)
		after, ok := r.Present()
		equal(t, "the rehearsal has an outcome", ok, true)
		sameRecord(t, "the recorded agent", after.Agent, created)
		equal(t, "usage before", r.Before().Organization.Usage, org.Usage())
		equal(t, "usage after", after.Organization.Usage, sum(created))
	})
}

// stop is a change that frees usage and needs a nudge.
func stop(a *agent.Agent) error { return a.Act(agent.Stop, agent.Manual, Now()) }

func rehearsedChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Starter)
	org.wantUnwritten(a.ID, func(ctx context.Context, r *rehearsal.Rehearsal) {
		stopped, err := w.Store.Change(ctx, a.ID, stop)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "status after the rehearsed stop", stopped.Status, agent.Stopped)
		after, _ := r.Present()
		sameRecord(t, "the recorded agent", after.Agent, stopped)
		sameRecord(t, "the agent before", r.Before().Agent, a)
		equal(t, "usage before", r.Before().Organization.Usage, sum(a))
		equal(t, "usage after", after.Organization.Usage, sum(stopped))
	})
}

func rehearsedEmptyChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Starter)
	org.wantUnwritten(a.ID, func(ctx context.Context, r *rehearsal.Rehearsal) {
		if _, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil }); err != nil {
			t.Fatal(err)
		}
		after, ok := r.Present()
		equal(t, "the rehearsal has an outcome", ok, true)
		sameRecord(t, "the recorded agent", after.Agent, a)
		equal(t, "usage after", after.Organization.Usage, sum(a))
	})
}

func rehearsedChanges(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	draft := Draft(plan.Starter)
	org.wantUnwritten(draft.ID, func(ctx context.Context, r *rehearsal.Rehearsal) {
		if _, err := w.Store.Create(ctx, draft); err != nil {
			t.Fatal(err)
		}
		for _, change := range []func(*agent.Agent) error{
			stop, func(a *agent.Agent) error { a.Name = "Renamed"; return nil },
		} {
			if _, err := w.Store.Change(ctx, draft.ID, change); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := r.Present()
		equal(t, "status after both changes", after.Agent.Status, agent.Stopped)
		equal(t, "name after both changes", after.Agent.Name, "Renamed")
		equal(t, "usage after", after.Organization.Usage, sum(after.Agent))
		sameRecord(t, "the agent before the creation", r.Before().Agent, agent.Agent{})
	})
}

func rehearsedRefusals(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Hobby)
	org.Create(plan.Hobby)
	draft := Draft(plan.Hobby)
	org.wantUnwritten(draft.ID, func(ctx context.Context, r *rehearsal.Rehearsal) {
		_, rehearsed := w.Store.Create(ctx, draft)
		_, real := w.Store.Create(org.Ctx, draft)
		if want := fault.From(real); real == nil || !reflect.DeepEqual(fault.From(rehearsed), want) {
			t.Errorf("the rehearsed creation returns %v, the real one %v", rehearsed, real)
		}
		if _, ok := r.Present(); ok {
			t.Error("the refused rehearsal has an outcome")
		}
	})
}

func rehearsedCreationsDoNotCount(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	store := w.limitedStore(t, Now())
	rehearse := func() error {
		ctx, _ := org.rehearsing()
		_, err := store.Create(ctx, Draft(plan.Hobby))
		return err
	}
	for range 2 * threePerMinute().Quota {
		if err := rehearse(); err != nil {
			t.Fatal(err)
		}
	}
	store.wantCreations(org.Ctx, t, "after rehearsals", threePerMinute().Quota)
	if err := rehearse(); !fault.Is(err, fault.RateLimited) {
		t.Errorf("a rehearsed creation over the limit: %v, want RateLimited", err)
	}
}

func rehearsedKey(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Starter)
	org.wantUnwritten(a.ID, func(ctx context.Context, _ *rehearsal.Rehearsal) {
		_, attempt := org.Attempt("k", "rehearsed")
		ctx = call.Derive(ctx, func(c *call.Call) { c.Attempt = attempt })
		if _, err := w.Store.Change(ctx, a.ID, stop); err != nil {
			t.Fatal(err)
		}
		equal(t, "the key is used", attempt.Used(), false)
	})
	keyed, _ := org.Attempt("k", "another request")
	if _, err := w.Store.Change(keyed, a.ID, stop); err != nil {
		t.Errorf("a request with the key of a rehearsal: %v", err)
	}
}
