package agenttest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// trailTests are the promises to calls whose audit entry is somebody's concern: a change writes it in its own commit,
// or not at all.
func trailTests() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"the entry of a call":         entryOfCall,
		"calls without an entry":      callsWithoutEntry,
		"changes of one call":         changesOfOneCall,
		"a call that begins in vain":  callBeginsInVain,
		"a call whose entry is taken": entryTaken,
	}
}

// Call makes the context of one call, and the trail of its entry.
func (n Tenant) Call() (context.Context, *audit.CallEntry) { return audit.WithCallEntry(n.Ctx) }

// added lists the entries that f adds.
func (n Tenant) added(f func()) []audit.Entry {
	n.t.Helper()
	before := map[string]bool{}
	for _, e := range n.Entries() {
		before[e.ID] = true
	}
	f()
	return slices.DeleteFunc(n.Entries(), func(e audit.Entry) bool { return before[e.ID] })
}

func entryOfCall(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a := Draft(plan.Hobby)
	wantEntry(t, org, "create", audit.Target{Type: "agent", ID: a.ID, Name: a.Name}, func(ctx context.Context) error {
		_, err := w.Store.Create(ctx, a)
		return err
	})
	wantEntry(t, org, "change", audit.Target{Type: "agent", ID: a.ID, Name: "Renamed"},
		func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error { a.Name = "Renamed"; return nil })
			return err
		})
}

// wantEntry wants a call to write its entry, under the id that was chosen for it.
func wantEntry(t *testing.T, org Tenant, name string, target audit.Target, do func(context.Context) error) {
	t.Helper()
	ctx, trail := org.Call()
	added := org.added(func() {
		if err := do(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	})
	if !trail.Written() {
		t.Errorf("%s: the trail doesn't say that the entry was written", name)
	}
	if len(added) != 1 || added[0].ID != trail.ID() || added[0].Outcome != audit.Succeeded ||
		added[0].Target != target {
		t.Errorf("%s: entries %+v, want one with the id %s of %+v", name, added, trail.ID(), target)
	}
}

// callsWithoutEntry: what changes nothing leaves the entry to whoever serves the call, and tells what it found.
func callsWithoutEntry(t *testing.T, w World) {
	org, other := w.Tenant(t, plan.Hobby), w.Tenant(t, plan.Hobby)
	a := org.Create(plan.Hobby)
	refusal := errors.New("refused")
	own := audit.Target{Type: "agent", ID: a.ID, Name: a.Name}
	for name, c := range map[string]struct {
		org  Tenant
		do   func(context.Context) error
		code string
		// found is what the call turned out to be about.
		found audit.Target
	}{
		"a change of nothing": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil })
			return err
		}, code: "", found: own},
		"a closure that refuses": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID,
				func(*agent.Agent) error { return fault.New(fault.Conflict, "refused", "No.").WithCause(refusal) })
			return err
		}, code: "refused", found: own},
		"an agent of others": {org: other, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, act(agent.Stop))
			return err
		}, code: "agent_not_found", found: audit.Target{}},
		"a creation beyond the plan": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Create(ctx, Draft(plan.Hobby))
			return err
		}, code: "plan_capacity_exceeded", found: audit.Target{}},
		"a change beyond the plan": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error { a.Plan = plan.Pro; return nil })
			return err
		}, code: "plan_capacity_exceeded", found: own},
		"a taken id": {
			org: org, do: func(ctx context.Context) error { _, err := w.Store.Create(ctx, a); return err },
			code: "agent_exists", found: audit.Target{},
		},
	} {
		ctx, trail := c.org.Call()
		var err error
		added := c.org.added(func() { err = c.do(ctx) })
		if fault.Code(err) != c.code || len(added) != 0 || trail.Written() || trail.Target() != c.found {
			t.Errorf("%s: %v, entries %+v, written %t, found %+v; want %q, none, and %+v",
				name, err, added, trail.Written(), trail.Target(), c.code, c.found)
		}
	}
}

// changesOfOneCall: several changes of one call have one entry, which tells of all of them.
func changesOfOneCall(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a, b := org.Create(plan.Hobby), org.Create(plan.Hobby)
	ctx, trail := org.Call()
	added := org.added(func() {
		for _, step := range []struct {
			id    string
			apply func(*agent.Agent) error
		}{
			{id: a.ID, apply: func(a *agent.Agent) error { a.Name = "Renamed"; return nil }},
			{id: a.ID, apply: func(*agent.Agent) error { return nil }},
			{id: a.ID, apply: act(agent.Stop)},
			{id: b.ID, apply: func(b *agent.Agent) error { b.Rollout++; return nil }}, // an entry shows nothing of it
		} {
			if _, err := w.Store.Change(ctx, step.id, step.apply); err != nil {
				t.Fatal(err)
			}
		}
	})
	want := []audit.Change{
		{Field: "name", Old: a.Name, New: "Renamed"},
		{Field: "status", Old: "provisioning", New: "stopped"},
	}
	if len(added) != 1 || added[0].ID != trail.ID() || !slices.Equal(added[0].Changes, want) ||
		added[0].Outcome != audit.Succeeded {
		t.Fatalf("entries %+v, want one with the changes %+v", added, want)
	}
	if e := added[0]; e.OrganizationID != org.ID || e.Actor.ID == "" || e.Action != "TestAgent" ||
		e.ExpiresAt.IsZero() {
		t.Errorf("later changes spoiled the entry: %+v", e)
	}
}

// callBeginsInVain: the change that writes the entry need not be the call's first.
func callBeginsInVain(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	for name, first := range map[string]func(*agent.Agent) error{
		"nothing": func(*agent.Agent) error { return nil },
		"refused": func(*agent.Agent) error { return errors.New("refused") },
	} {
		ctx, trail := org.Call()
		added := org.added(func() {
			_, _ = w.Store.Change(ctx, a.ID, first)
			if _, err := w.Store.Change(ctx, a.ID,
				func(a *agent.Agent) error { a.Name += "!"; return nil }); err != nil {
				t.Fatal(err)
			}
		})
		if len(added) != 1 || added[0].ID != trail.ID() || len(added[0].Changes) != 1 || !trail.Written() {
			t.Errorf("%s: entries %+v, written %t; want one with a change", name, added, trail.Written())
		}
	}
}

// longEnoughToFail is how long a call may try what can't succeed.
const longEnoughToFail = 300 * time.Millisecond

// entryTaken: where an entry stands in the place of a call's, the call was given up, and its change can't be committed
// any more.
func entryTaken(t *testing.T, w World) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	ctx, trail := org.Call()
	if err := w.Log.Append(ctx, audit.Entry{
		ID: trail.ID(), OrganizationID: org.ID, Action: "TestAgent", Outcome: "store_unavailable",
		Target: audit.Target{Type: "agent", ID: a.ID},
	}); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, longEnoughToFail)
	defer cancel()
	_, err := w.Store.Change(short, a.ID, act(agent.Stop))
	if !fault.Is(err, fault.Unavailable) || trail.Written() {
		t.Errorf("a change of a call that was given up: %v, written %t; want unavailable", err, trail.Written())
	}
	if got := org.load(a.ID); got.Version != a.Version {
		t.Errorf("the change was committed: the agent is %s", got.Status)
	}
}
