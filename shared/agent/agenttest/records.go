package agenttest

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestWorkerStore tests an agent.WorkerStore. open makes an empty Fixture.
func TestWorkerStore(t *testing.T, open func(*testing.T) Fixture) {
	runEach(t, map[string]func(testing.TB, Fixture){
		"load":                                 load,
		"update keeps progress":                updateKeepsProgress,
		"update applies to the present record": updateStaleRecord,
		"update of a former generation":        updateSuperseded,
		"update moves the usage":               updateMovesUsage,
		"concurrent updates":                   concurrentUpdates,
		"update of a removed agent":            updateRemoved,
		"remove":                               remove,
		"remove of a former generation":        removeChanged,
		"concurrent removals":                  concurrentRemovals,
		"list due agents, oldest first":        listDue,
		"list agents with due schedules":       listCallsDue,
		"list agents by status, in pages":      listByStatus,
	}, open)
}

func load(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	sameRecord(t, "Load", org.load(a.ID), a)
	for _, id := range []string{ID(), "", "a/b"} {
		if _, err := w.Records.Load(t.Context(), id); !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
			t.Errorf("Load(%q) = %v, want NotFound", id, err)
		}
	}
}

func updateKeepsProgress(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	entries, nudges := len(org.Entries()), w.Nudges.Count(a.ID)
	var err error
	for _, stage := range agent.StageNames() {
		a, err = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.BeginStage(stage, Now()) })
		if err != nil {
			t.Fatal(err)
		}
		a, err = w.Records.Update(t.Context(), a,
			func(a *agent.Agent) { a.EndStage(stage, agent.StageSucceeded, Now()) })
		if err != nil {
			t.Fatal(err)
		}
		if got := org.load(a.ID); !reflect.DeepEqual(got, a) {
			t.Fatalf("Load differs from what Update returned:\n got %+v\nwant %+v", got, a)
		}
	}
	a, err = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.BecameReady(Now()) })
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "Converged", a.Converged(), true)
	equal(t, "Status", a.Status, agent.Running)
	same, err := w.Records.Update(t.Context(), a, func(*agent.Agent) {})
	if err != nil {
		t.Errorf("Update without a change: %v", err)
	}
	sameRecord(t, "Update without a change", same, a)
	equal(t, "number of audit entries after a worker's progress", len(org.Entries()), entries)
	equal(t, "number of nudges after a worker's progress", w.Nudges.Count(a.ID), nudges)
}

func updateStaleRecord(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, func(a *agent.Agent) error {
		a.Name = "renamed" // the generation stays
		return nil
	})
	for _, known := range []agent.Agent{a, {ID: a.ID, Generation: a.Generation}} {
		got, err := w.Records.Update(t.Context(), known, func(a *agent.Agent) { a.Attempts++ })
		if err != nil {
			t.Errorf("Update: %v", err)
		}
		equal(t, "Name of the record that Update changed", got.Name, "renamed")
	}
	got := org.load(a.ID)
	equal(t, "Attempts", got.Attempts, 2)
	equal(t, "Name", got.Name, "renamed")
}

func updateSuperseded(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	stopped := org.change(a.ID, act(agent.Stop))
	for name, apply := range map[string]func(*agent.Agent){
		"progress": func(a *agent.Agent) { a.BecameReady(Now()) },
		"nothing":  func(*agent.Agent) {},
	} {
		got, err := w.Records.Update(t.Context(), a, apply)
		if !errors.Is(err, agent.ErrSuperseded) {
			t.Errorf("Update with %s for a former generation: %v, want ErrSuperseded", name, err)
		}
		sameRecord(t, "Update with "+name+" for a former generation", got, stopped)
	}
	sameRecord(t, "the record after superseded updates", org.load(a.ID), stopped)
}

func updateMovesUsage(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	for _, status := range []agent.Status{agent.Stopped, agent.Running, agent.Deleting} {
		var err error
		if a, err = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.Status = status }); err != nil {
			t.Fatal(err)
		}
		equal(t, fmt.Sprintf("usage with status %s", status), org.Usage(), sum(a))
	}
}

func concurrentUpdates(t testing.TB, w Fixture) {
	const writers = 8
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	errs := make([]error, writers)
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() { _, errs[i] = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.Attempts++ }) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	equal(t, "number of concurrent updates that were kept", org.load(a.ID).Attempts, writers)
}

func updateRemoved(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	if err := w.Records.Remove(t.Context(), a, agent.Deletion{}); err != nil {
		t.Fatal(err)
	}
	_, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.Attempts++ })
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("Update of a removed agent: %v, want NotFound", err)
	}
	if _, err := w.Records.Load(t.Context(), a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Load after an update of the removed agent: %v, want NotFound", err)
	}
}

func remove(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	kept, a := org.Create(plan.Pro), org.Create(plan.Pro)
	a = org.change(a.ID, act(agent.Delete))
	for range 2 {
		if err := w.Records.Remove(t.Context(), a, agent.Deletion{}); err != nil {
			t.Errorf("Remove: %v, want success, also the second time", err)
		}
	}
	if err := w.Records.Remove(t.Context(), agent.Agent{ID: ID()}, agent.Deletion{}); err != nil {
		t.Errorf("Remove of an agent that never existed: %v, want success", err)
	}
	if _, err := w.Store.Get(org.Ctx, a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("Get of the removed agent: %v, want NotFound", err)
	}
	equal(t, "usage", org.Usage(), sum(kept))
}

func removeChanged(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, act(agent.Stop))
	if err := w.Records.Remove(t.Context(), a, agent.Deletion{}); !errors.Is(err, agent.ErrSuperseded) {
		t.Errorf("Remove of an agent whose desired state changed: %v, want ErrSuperseded", err)
	}
	// A change that leaves the generation does not prevent the removal.
	b := org.Create(plan.Pro)
	if _, err := w.Records.Update(t.Context(), b, func(b *agent.Agent) { b.Status = agent.Stopped }); err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Remove(t.Context(), b, agent.Deletion{}); err != nil {
		t.Errorf("Remove of an agent whose status changed: %v", err)
	}
	equal(t, "usage", org.Usage(), sum(org.load(a.ID)))
}

func concurrentRemovals(t testing.TB, w Fixture) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Records.Remove(t.Context(), a, agent.Deletion{}) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	equal(t, "usage, freed exactly once,", org.Usage(), organization.Usage{})
}

func listDue(t testing.TB, w Fixture) {
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	now := Now()
	createDue := func(org Tenant, when time.Time) agent.Agent {
		a := org.Create(plan.Hobby)
		a, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.WorkDueAt = when })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	second, first := createDue(org, now.Add(-time.Minute)), createDue(other, now.Add(-time.Hour))
	third := createDue(org, now)
	createDue(org, now.Add(time.Microsecond))
	createDue(org, time.Time{})
	for limit, want := range map[int][]agent.Agent{10: {first, second, third}, 2: {first, second}} {
		got, err := w.Records.ListDue(t.Context(), now, limit)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ListDue with limit %d = %v, %v, want %v", limit, ids(got), err, ids(want))
		}
	}
}

func listCallsDue(t testing.TB, w Fixture) {
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	now := Now()
	createDue := func(org Tenant, status agent.Status, when time.Time) agent.Agent {
		a := org.Create(plan.Hobby)
		a, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) {
			a.Status, a.ObservedGeneration, a.WorkDueAt, a.WakeAt = status, a.Generation, time.Time{}, when
		})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	second := createDue(org, agent.Running, now.Add(-time.Minute))
	first := createDue(other, agent.Running, now.Add(-time.Hour))
	third := createDue(org, agent.Running, now)
	createDue(org, agent.Running, now.Add(time.Microsecond))
	createDue(org, agent.Running, time.Time{})
	createDue(org, agent.Stopped, now.Add(-time.Hour))
	for limit, want := range map[int][]agent.Agent{10: {first, second, third}, 2: {first, second}} {
		got, err := w.Records.ListCallsDue(t.Context(), now, limit)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ListCallsDue with limit %d = %v, %v, want %v", limit, ids(got), err, ids(want))
		}
	}
}
