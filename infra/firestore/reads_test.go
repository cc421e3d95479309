package firestore

import (
	"reflect"
	"strings"
	"testing"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// TestFetched: a document that came with the caller's key is not read again, and is no way around tenancy.
func TestFetched(t *testing.T) {
	t.Parallel()
	counter := &calls{}
	c := open(t, "", Options{Observe: counter.observe})
	w := agentWorld(c)
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	a, b := org.Create(plan.Hobby), org.Create(plan.Hobby)
	key, absent := testKey(), agenttest.ID()
	if _, err := c.Keys().Create(org.Ctx, key); err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		fetched, asked string
		caller         agenttest.Tenant
		calls          string
		found          bool
	}{
		"fetched":                {fetched: a.ID, asked: a.ID, caller: org, calls: "", found: true},
		"fetched another":        {fetched: b.ID, asked: a.ID, caller: org, calls: "read", found: true},
		"another organization's": {fetched: a.ID, asked: a.ID, caller: other, calls: "", found: false},
		"nothing there":          {fetched: absent, asked: absent, caller: org, calls: "", found: false},
		"no id of a document":    {fetched: "a/b", asked: "a/b", caller: org, calls: "", found: false},
		"nothing fetched":        {fetched: "", asked: a.ID, caller: org, calls: "read", found: true},
		"written in capitals":    {fetched: a.ID, asked: strings.ToUpper(a.ID), caller: org, calls: "", found: true},
	} {
		ctx, _, err := c.Keys().Find(row.caller.Ctx, key.Hash,
			document.Ref{Collection: agentCollection, ID: row.fetched})
		if err != nil {
			t.Fatal(err)
		}
		sent := counter.of(func() {
			var got agent.Agent
			if got, err = w.Store.Get(ctx, row.asked); (err == nil) != row.found || row.found &&
				!reflect.DeepEqual(got, a) {
				t.Errorf("%s: %+v, %v; want found %t", name, got, err, row.found)
			}
			if !row.found && !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
				t.Errorf("%s: %v, want not found", name, err)
			}
		})
		if plain(sent) != row.calls {
			t.Errorf("%s: calls %q, want %q", name, plain(sent), row.calls)
		}
	}
	// A change always reads again.
	ctx, _, err := c.Keys().Find(org.Ctx, key.Hash, document.Ref{Collection: agentCollection, ID: a.ID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Change(org.Ctx, a.ID, stop); err != nil {
		t.Fatal(err)
	}
	if got, err := w.Store.Change(ctx, a.ID, func(*agent.Agent) error { return nil }); err != nil ||
		got.Status != agent.Stopped {
		t.Errorf("a change saw the agent %s, %v; want stopped", got.Status, err)
	}
}

// TestOtherAges: functions of different ages work on the same documents.
func TestOtherAges(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	w := agentWorld(c)
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Hobby)
	ref, _ := c.ref(agentCollection, a.ID)
	if _, err := ref.Update(t.Context(), []gcp.Update{
		{Path: "of_the_future", Value: "kept"}, {Path: "rollout", Value: gcp.Delete}, {Path: "env", Value: gcp.Delete},
		{Path: "failure", Value: nil},
	}); err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Change(org.Ctx, a.ID, func(a *agent.Agent) error {
		if a.Rollout != 0 || a.Env != nil {
			t.Errorf("missing fields became %d, %v", a.Rollout, a.Env)
		}
		a.Rollout++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Records.Update(t.Context(), got, func(a *agent.Agent) { a.Attempts++ }); err != nil {
		t.Fatal(err)
	}
	snap, err := ref.Get(t.Context())
	if err != nil || snap.Data()["of_the_future"] != "kept" || snap.Data()["rollout"] != int64(1) {
		t.Errorf("the document has %v (%v)", snap.Data(), err)
	}
}

// TestSpoiled: a document that somebody spoiled by hand is an error, and not an agent with zero values.
func TestSpoiled(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := agentWorld(c).Tenant(t, plan.Enterprise)
	for path, value := range map[string]any{
		"rollout": "1", "status": 1, "created_at": "today", "work_due_at": 5, "env": "none", "stages": []any{"ready"},
		"failure": map[string]any{"code": 7}, "env.": []any{map[string]any{"key": 1}},
	} {
		a := org.Create(plan.Hobby)
		ref, _ := c.agent(a.ID)
		if _, err := ref.Update(t.Context(),
			[]gcp.Update{{Path: strings.TrimSuffix(path, "."), Value: value}}); err != nil {
			t.Fatal(err)
		}
		if got, err := c.WorkerStore().Load(t.Context(), a.ID); err == nil {
			t.Errorf("%s = %v was read as %+v", path, value, got)
		}
	}
	healthy := org.Create(plan.Hobby)
	if due, err := c.WorkerStore().ListDue(t.Context(), healthy.WorkDueAt, 100); err != nil || len(due) != 1 ||
		due[0].ID != healthy.ID {
		t.Errorf("%d agents are due, %v; want the healthy one", len(due), err)
	}
	key := testKey()
	if _, err := c.Keys().Create(org.Ctx, key); err != nil {
		t.Fatal(err)
	}
	ref, _ := c.ref(keyCollection, key.Hash)
	if _, err := ref.Update(t.Context(), []gcp.Update{{Path: "expires_at", Value: "never"}}); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Keys().Find(t.Context(), key.Hash, document.Ref{}); err == nil {
		t.Errorf("the key was read as %+v", got)
	}
}
