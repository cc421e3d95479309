package organizationtest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// changing makes changes of every kind to what the organization holds, one after another, while do runs, and returns
// what is held in the end.
func (h holder) changing(do func()) organization.Usage {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.ctx)
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		do()
	})
	var failed error
	all.Go(func() {
		for ctx.Err() == nil && failed == nil {
			failed = h.round()
		}
	})
	all.Wait()
	if failed != nil {
		h.t.Errorf("a change failed: %v", failed)
	}
	var held organization.Usage
	h.eachAgent(func(a agent.Agent) {
		u, err := a.HeldUsage()
		if err != nil {
			h.t.Error(err)
		}
		held = held.Plus(u)
	})
	held.APIKeys = 3
	return held
}

// round creates, stops, deletes and removes an agent, and creates and revokes a key.
func (h holder) round() error {
	k, err := h.createKey()
	if err != nil {
		return err
	}
	a, err := h.create(plan.Pro)
	if err != nil {
		return err
	}
	for _, trigger := range []agent.Trigger{agent.Stop, agent.Start, agent.Delete} {
		if a, err = h.world.Agents.Change(h.ctx, a.ID,
			func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, a.UpdatedAt) }); err != nil {
			return err
		}
	}
	return errors.Join(h.world.Records.Remove(h.ctx, a), h.world.Keys.Revoke(h.ctx, k.ID))
}

func (h holder) eachAgent(see func(agent.Agent)) {
	h.t.Helper()
	for cursor := ""; ; {
		p, err := h.world.Agents.List(h.ctx, agent.Filter{}, page.Request{Cursor: cursor})
		if err != nil {
			h.t.Fatal(err)
		}
		for _, a := range p.Items {
			see(a)
		}
		if cursor = p.Next; cursor == "" {
			return
		}
	}
}

const (
	// enoughRecounts is how often a race is tried.
	enoughRecounts = 8
	// shortly is how long a recount may try to get in between changes that never end.
	shortly = 300 * time.Millisecond
)

// recountShortly recounts for a short time. A count that is not let through in it says so, and finds nothing.
func (h holder) recountShortly() (drift organization.Drift, found bool) {
	ctx, cancel := context.WithTimeout(h.ctx, shortly)
	defer cancel()
	drift, found, err := h.world.Counts.Recount(ctx, h.id)
	if found && err != nil {
		h.t.Errorf("the drift %+v was found, and %v", drift, err)
	}
	return drift, found
}

// recountWhileChanging: changes that race with a count are no drift, and lose nothing by it.
func recountWhileChanging(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	h.fill()
	held := h.changing(func() {
		for range enoughRecounts {
			if drift, found := h.recountShortly(); found {
				t.Errorf("a change was taken for the drift %+v", drift)
			}
		}
	})
	h.want(nil, held)
}

// repairWhileChanging: a drift that is repaired while changes race is gone afterwards, and so is nothing else.
func repairWhileChanging(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	h.fill()
	h.spoil(h.usage().Plus(organization.Usage{Agents: 7, APIKeys: -1}))
	found := 0
	held := h.changing(func() {
		for range enoughRecounts {
			if drift, ok := h.recountShortly(); ok {
				found++
				if off := drift.Recorded.Minus(drift.Counted); off != (organization.Usage{Agents: 7, APIKeys: -1}) {
					t.Errorf("the drift is %+v", off)
				}
			}
		}
	})
	if found > 1 {
		t.Errorf("the drift was found %d times", found)
	}
	if _, ok, err := w.Counts.Recount(h.ctx, h.id); err != nil || ok != (found == 0) {
		t.Errorf("after %d found it, in the end: found %t, %v", found, ok, err)
	}
	h.want(nil, held)
}

// changesAfterRepair: what is released later is taken from what was repaired.
func changesAfterRepair(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	held := h.fill()
	a := h.add(plan.Pro)
	h.spoil(organization.Usage{})
	if _, found, err := w.Counts.Recount(h.ctx, h.id); err != nil || !found {
		t.Fatalf("found %t, %v", found, err)
	}
	if err := w.Records.Remove(h.ctx, a); err != nil {
		t.Fatal(err)
	}
	h.want(nil, held)
}

// recountEvery has the whole of organizations recounted.
func recountEvery(t *testing.T, w CountsWorld) {
	holders := make([]holder, 10)
	spoiled := map[string]bool{}
	for i := range holders {
		holders[i] = w.holder(t)
		if i%3 == 0 {
			holders[i].spoil(organization.Usage{Agents: int64(i + 1)})
			spoiled[holders[i].id] = true
		}
	}
	for _, want := range []int{len(spoiled), 0} {
		var mu sync.Mutex
		reported := map[string]int{}
		err := organization.Recount(t.Context(), w.Counts, func(d organization.Drift) {
			mu.Lock()
			defer mu.Unlock()
			reported[d.OrganizationID]++
		})
		if err != nil || len(reported) != want {
			t.Errorf("reported %v, %v; want %d of %v", reported, err, want, spoiled)
		}
		for id, n := range reported {
			if n != 1 || !spoiled[id] {
				t.Errorf("%s was reported %d times, spoiled %t", id, n, spoiled[id])
			}
		}
	}
}
