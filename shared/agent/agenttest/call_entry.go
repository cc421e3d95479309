package agenttest

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// callEntryTests check the promises to calls with an audit entry: a change writes it in the same commit, or not at all.
func callEntryTests() map[string]func(testing.TB, Fixture) {
	return map[string]func(testing.TB, Fixture){
		"call writes its audit entry":             entryOfCall,
		"call without a change writes no entry":   callsWithoutEntry,
		"changes of one call share an entry":      changesOfOneCall,
		"entry is written by a later change":      entryOfLaterChange,
		"call whose entry was taken can't commit": entryTaken,
		"outcome of a call stays":                 outcomeStays,
	}
}

// Call makes the context of one call, and its audit entry.
func (n Tenant) Call() (context.Context, *audit.CallEntry) {
	entry := audit.NewCallEntry()
	return call.Derive(n.Ctx, func(c *call.Call) { c.Entry = entry }), entry
}

// entriesAddedBy lists the audit entries that f adds.
func (n Tenant) entriesAddedBy(f func()) []audit.Entry {
	n.t.Helper()
	before := map[string]bool{}
	for _, e := range n.Entries() {
		before[e.ID] = true
	}
	f()
	return slices.DeleteFunc(n.Entries(), func(e audit.Entry) bool { return before[e.ID] })
}

func entryOfCall(t testing.TB, w Fixture) {
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

// wantEntry runs a call and wants exactly its entry, under the id that the call chose.
func wantEntry(t testing.TB, org Tenant, name string, target audit.Target, do func(context.Context) error) {
	t.Helper()
	ctx, entry := org.Call()
	added := org.entriesAddedBy(func() {
		if err := do(ctx); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	})
	equal(t, name+": Written", entry.Written(), true)
	if len(added) != 1 {
		t.Fatalf("%s: %d entries %+v, want one", name, len(added), added)
	}
	equal(t, name+": entry id", added[0].ID, entry.ID())
	equal(t, name+": outcome", added[0].Outcome, audit.Succeeded)
	equal(t, name+": target", added[0].Target, target)
}

// callsWithoutEntry makes calls that change nothing. They leave the entry to the server of the call, and record its
// target.
func callsWithoutEntry(t testing.TB, w Fixture) {
	org, other := w.Tenant(t, plan.Hobby), w.Tenant(t, plan.Hobby)
	a := org.Create(plan.Hobby)
	refusal := errors.New("refused")
	own := audit.Target{Type: "agent", ID: a.ID, Name: a.Name}
	for name, c := range map[string]struct {
		org        Tenant
		do         func(context.Context) error
		wantCode   string
		wantTarget audit.Target
	}{
		"empty change": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil })
			return err
		}, wantTarget: own},
		"refusing closure": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID,
				func(*agent.Agent) error { return fault.New(fault.Conflict, "refused", "No.").WithCause(refusal) })
			return err
		}, wantCode: "refused", wantTarget: own},
		"another organization's agent": {org: other, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, act(agent.Stop))
			return err
		}, wantCode: "agent_not_found", wantTarget: audit.Target{}},
		"creation beyond the plan": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Create(ctx, Draft(plan.Hobby))
			return err
		}, wantCode: "plan_capacity_exceeded", wantTarget: audit.Target{}},
		"change beyond the plan": {org: org, do: func(ctx context.Context) error {
			_, err := w.Store.Change(ctx, a.ID, func(a *agent.Agent) error { a.Plan = plan.Pro; return nil })
			return err
		}, wantCode: "plan_capacity_exceeded", wantTarget: own},
		"taken id": {
			org: org, do: func(ctx context.Context) error { _, err := w.Store.Create(ctx, a); return err },
			wantCode: "agent_exists", wantTarget: audit.Target{},
		},
	} {
		ctx, entry := c.org.Call()
		var err error
		added := c.org.entriesAddedBy(func() { err = c.do(ctx) })
		equal(t, name+": error code", fault.Code(err), c.wantCode)
		equal(t, name+": number of entries", len(added), 0)
		equal(t, name+": Written", entry.Written(), false)
		equal(t, name+": Target", entry.Target(), c.wantTarget)
	}
}

// changesOfOneCall makes several changes in one call, and wants one entry with all of them.
func changesOfOneCall(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a, b := org.Create(plan.Hobby), org.Create(plan.Hobby)
	ctx, entry := org.Call()
	added := org.entriesAddedBy(func() {
		for _, step := range []struct {
			id    string
			apply func(*agent.Agent) error
		}{
			{id: a.ID, apply: func(a *agent.Agent) error { a.Name = "Renamed"; return nil }},
			{id: a.ID, apply: func(*agent.Agent) error { return nil }},
			{id: a.ID, apply: act(agent.Stop)},
			// entries do not show the rollout
			{id: b.ID, apply: func(b *agent.Agent) error { b.Rollout++; return nil }},
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
	if len(added) != 1 || !slices.Equal(added[0].Changes, want) {
		t.Fatalf("entries %+v, want one with the changes %+v", added, want)
	}
	e := added[0]
	equal(t, "entry id", e.ID, entry.ID())
	equal(t, "outcome", e.Outcome, audit.Succeeded)
	equal(t, "organization id", e.OrganizationID, org.ID)
	equal(t, "action", e.Action, "TestAgent")
	equal(t, "the entry has an actor", e.Actor.ID != "", true)
	equal(t, "the entry expires", e.ExpiresAt.IsZero(), false)
}

// entryOfLaterChange makes calls whose first change writes no entry, so the second must.
func entryOfLaterChange(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	for name, first := range map[string]func(*agent.Agent) error{
		"after an empty change":  func(*agent.Agent) error { return nil },
		"after a refused change": func(*agent.Agent) error { return errors.New("refused") },
	} {
		ctx, entry := org.Call()
		added := org.entriesAddedBy(func() {
			_, _ = w.Store.Change(ctx, a.ID, first)
			if _, err := w.Store.Change(ctx, a.ID,
				func(a *agent.Agent) error { a.Name += "!"; return nil }); err != nil {
				t.Fatal(err)
			}
		})
		equal(t, name+": Written", entry.Written(), true)
		if len(added) != 1 || len(added[0].Changes) != 1 {
			t.Errorf("%s: entries %+v, want one with one change", name, added)
			continue
		}
		equal(t, name+": entry id", added[0].ID, entry.ID())
	}
}

// longEnoughToFail is how long a call may try a commit that can't succeed.
const longEnoughToFail = 300 * time.Millisecond

// entryTaken writes an entry under a call's id, as the server does when it gives a call up. The call's change must not
// be committed then.
func entryTaken(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	for name, before := range map[string]func(context.Context){
		"first change": func(context.Context) {},
		"after a refused change": func(ctx context.Context) {
			_, _ = w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return errors.New("refused") })
		},
	} {
		ctx, entry := org.Call()
		before(ctx)
		if err := w.Log.Append(ctx, audit.Entry{
			ID: entry.ID(), OrganizationID: org.ID, Action: "TestAgent", Outcome: "store_unavailable",
			Target: audit.Target{Type: "agent", ID: a.ID},
		}); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(ctx, longEnoughToFail)
		defer cancel()
		_, err := w.Store.Change(short, a.ID, act(agent.Stop))
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: Change of a call that was given up = %v, want Unavailable", name, err)
		}
		equal(t, name+": Written", entry.Written(), false)
		equal(t, name+": version of the agent", org.load(a.ID).Version, a.Version)
	}
}

// outcomeStays lets the second change of a call land after the server has written the outcome that the client was told.
func outcomeStays(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Enterprise)
	a := org.Create(plan.Hobby)
	ctx, entry := org.Call()
	entry.Begin()
	rename := func(a *agent.Agent) error { a.Name += "!"; return nil }
	if _, err := w.Store.Change(ctx, a.ID, rename); err != nil {
		t.Fatal(err)
	}
	if err := w.Log.Finish(ctx, entry.ID(), "store_unavailable"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Change(ctx, a.ID, rename); err != nil {
		t.Fatal(err)
	}
	for _, e := range org.Entries() {
		if e.ID == entry.ID() {
			equal(t, "outcome", e.Outcome, "store_unavailable")
			equal(t, "changes", len(e.Changes), 2)
		}
	}
}
