package agenttest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestWorkerStore holds an agent.Records to its promises. open makes an empty world.
func TestWorkerStore(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"load":                      load,
		"record":                    record,
		"record on a stale record":  recordStale,
		"record superseded":         recordSuperseded,
		"record moves the usage":    recordUsage,
		"many records":              manyRecords,
		"record of what is gone":    recordGone,
		"remove":                    remove,
		"remove what was changed":   removeChanged,
		"remove by several workers": removeRace,
		"due":                       due,
		"with status":               withStatus,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func load(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	if got := org.load(a.ID); !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v\nwant %+v", got, a)
	}
	for _, id := range []string{ID(), "", "a/b"} {
		if _, err := w.Records.Load(t.Context(), id); !reflect.DeepEqual(fault.From(err), agent.NotFound()) {
			t.Errorf("load %q: %v, want not found", id, err)
		}
	}
}

func record(t *testing.T, w World) {
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
			t.Fatalf("Load differs from what Record returned:\n got %+v\nwant %+v", got, a)
		}
	}
	a, err = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.BecameReady(Now()) })
	if err != nil || !a.Converged() || a.Status != agent.Running {
		t.Errorf("the agent is %s, converged %t, %v", a.Status, a.Converged(), err)
	}
	same, err := w.Records.Update(t.Context(), a, func(*agent.Agent) {})
	if err != nil || !reflect.DeepEqual(same, a) {
		t.Errorf("recording nothing: %+v, %v; want the former record", same, err)
	}
	if len(org.Entries()) != entries || w.Nudges.Count(a.ID) != nudges {
		t.Error("a worker's progress was audited or nudged")
	}
}

func recordStale(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, func(a *agent.Agent) error {
		a.Name = "renamed meanwhile" // the generation stays
		return nil
	})
	for _, known := range []agent.Agent{a, {ID: a.ID, Generation: a.Generation}} {
		got, err := w.Records.Update(t.Context(), known, func(a *agent.Agent) { a.Attempts++ })
		if err != nil || got.Name != "renamed meanwhile" {
			t.Errorf("recorded on %q, %v; want the present record", got.Name, err)
		}
	}
	if got := org.load(a.ID); got.Attempts != 2 || got.Name != "renamed meanwhile" {
		t.Errorf("%d attempts of %q, want 2 of the renamed agent", got.Attempts, got.Name)
	}
}

func recordSuperseded(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	stopped := org.change(a.ID, act(agent.Stop))
	for name, apply := range map[string]func(*agent.Agent){
		"progress": func(a *agent.Agent) { a.BecameReady(Now()) },
		"nothing":  func(*agent.Agent) {},
	} {
		got, err := w.Records.Update(t.Context(), a, apply)
		if !errors.Is(err, agent.ErrSuperseded) || !reflect.DeepEqual(got, stopped) {
			t.Errorf("recording %s for a former generation: %+v, %v; want the present record and ErrSuperseded", name,
				got, err)
		}
	}
	if got := org.load(a.ID); !reflect.DeepEqual(got, stopped) {
		t.Errorf("the record changed:\n got %+v\nwant %+v", got, stopped)
	}
}

func recordUsage(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	for _, status := range []agent.Status{agent.Stopped, agent.Running, agent.Deleting} {
		var err error
		if a, err = w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.Status = status }); err != nil {
			t.Fatal(err)
		}
		if got, want := org.Usage(), sum(t, a); got != want {
			t.Errorf("usage %+v of an agent that is %s, want %+v", got, status, want)
		}
	}
}

func manyRecords(t *testing.T, w World) {
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
	if got := org.load(a.ID).Attempts; got != writers {
		t.Errorf("%d of %d concurrent records were kept", got, writers)
	}
}

func recordGone(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	if err := w.Records.Remove(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.Attempts++ }); !fault.Is(err,
		fault.NotFound) {
		t.Errorf("recording on a removed agent: %v, want not found", err)
	}
	if _, err := w.Records.Load(t.Context(), a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a record brought the agent back: %v", err)
	}
}

func remove(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	kept, a := org.Create(plan.Pro), org.Create(plan.Pro)
	a = org.change(a.ID, act(agent.Delete))
	for range 2 {
		if err := w.Records.Remove(t.Context(), a); err != nil {
			t.Errorf("remove: %v", err)
		}
	}
	if err := w.Records.Remove(t.Context(), agent.Agent{ID: ID()}); err != nil {
		t.Errorf("remove what never was: %v", err)
	}
	if _, err := w.Store.Get(org.Ctx, a.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("the removed agent: %v, want not found", err)
	}
	if got, want := org.Usage(), sum(t, kept); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func removeChanged(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	org.change(a.ID, act(agent.Stop))
	if err := w.Records.Remove(t.Context(), a); !errors.Is(err, agent.ErrSuperseded) {
		t.Errorf("removing an agent whose desired state changed: %v, want ErrSuperseded", err)
	}
	// What changed without a new desired state is removed as it is now.
	b := org.Create(plan.Pro)
	if _, err := w.Records.Update(t.Context(), b, func(b *agent.Agent) { b.Status = agent.Stopped }); err != nil {
		t.Fatal(err)
	}
	if err := w.Records.Remove(t.Context(), b); err != nil {
		t.Error(err)
	}
	if got, want := org.Usage(), sum(t, org.load(a.ID)); got != want {
		t.Errorf("usage %+v, want %+v", got, want)
	}
}

func removeRace(t *testing.T, w World) {
	org := w.Tenant(t, plan.Pro)
	a := org.Create(plan.Pro)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Records.Remove(t.Context(), a) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if got := org.Usage(); got != (organization.Usage{}) {
		t.Errorf("usage %+v, want it freed once", got)
	}
}

func due(t *testing.T, w World) {
	org, other := w.Tenant(t, plan.Pro), w.Tenant(t, plan.Pro)
	now := Now()
	at := func(org Tenant, when time.Time) agent.Agent {
		a := org.Create(plan.Hobby)
		a, err := w.Records.Update(t.Context(), a, func(a *agent.Agent) { a.WorkDueAt = when })
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	second, first := at(org, now.Add(-time.Minute)), at(other, now.Add(-time.Hour))
	third := at(org, now)
	at(org, now.Add(time.Microsecond))
	at(org, time.Time{})
	for limit, want := range map[int][]agent.Agent{10: {first, second, third}, 2: {first, second}} {
		got, err := w.Records.ListDue(t.Context(), now, limit)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("at most %d due: %v, %v; want %v", limit, ids(got), err, ids(want))
		}
	}
}
