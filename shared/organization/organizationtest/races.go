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

// changeDuring changes the organization's agents and keys in every way while do runs. It returns the usage in the end.
func (n tenant) changeDuring(do func()) organization.Usage {
	n.t.Helper()
	ctx, stop := context.WithCancel(n.ctx)
	var all sync.WaitGroup
	all.Go(func() {
		defer stop()
		do()
	})
	var failed error
	all.Go(func() {
		for ctx.Err() == nil && failed == nil {
			failed = n.changeEverything()
		}
	})
	all.Wait()
	if failed != nil {
		n.t.Errorf("organizationtest: a concurrent change failed: %v", failed)
	}
	var held organization.Usage
	n.eachAgent(func(a agent.Agent) { held = held.Plus(a.HeldUsage()) })
	held.APIKeys = 3
	return held
}

// changeEverything creates, stops, starts, deletes and removes an agent, and creates and revokes a key.
func (n tenant) changeEverything() error {
	k, err := n.createKey()
	if err != nil {
		return err
	}
	a, err := n.createAgent(plan.Pro)
	if err != nil {
		return err
	}
	for _, trigger := range []agent.Trigger{agent.Stop, agent.Start, agent.Delete} {
		if a, err = n.fixture.Agents.Change(n.ctx, a.ID,
			func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, a.UpdatedAt) }); err != nil {
			return err
		}
	}
	return errors.Join(n.fixture.Records.Remove(n.ctx, a, agent.Deletion{}), n.fixture.Keys.Revoke(n.ctx, k.ID))
}

func (n tenant) eachAgent(visit func(agent.Agent)) {
	n.t.Helper()
	for cursor := ""; ; {
		p, err := n.fixture.Agents.List(n.ctx, agent.Filter{}, page.Request{Cursor: cursor})
		if err != nil {
			n.t.Fatalf("organizationtest: list agents: %v", err)
		}
		for _, a := range p.Items {
			visit(a)
		}
		if cursor = p.Next; cursor == "" {
			return
		}
	}
}

const (
	// raceAttempts is the number of recounts that race with changes.
	raceAttempts = 8
	// recountTimeout limits a recount that keeps losing against concurrent changes.
	recountTimeout = 300 * time.Millisecond
)

// tryRecount recounts with a timeout. A recount that times out must not report a drift.
func (n tenant) tryRecount() (drift organization.Drift, found bool) {
	ctx, cancel := context.WithTimeout(n.ctx, recountTimeout)
	defer cancel()
	drift, found, err := n.fixture.Counts.Recount(ctx, n.id)
	if found && err != nil {
		n.t.Errorf("organizationtest: recount reported the drift %+v and the error %v, want one of them", drift, err)
	}
	return drift, found
}

func concurrentChangesAreNoDrift(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	n.fill()
	held := n.changeDuring(func() {
		for range raceAttempts {
			if drift, found := n.tryRecount(); found {
				t.Errorf("organizationtest: a concurrent change was reported as the drift %+v", drift)
			}
		}
	})
	n.recountWants(nil, held)
}

func repairKeepsConcurrentChanges(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	n.fill()
	want := organization.Usage{Agents: 7, APIKeys: -1}
	n.spoil(n.recordedUsage().Plus(want))
	found := 0
	held := n.changeDuring(func() {
		for range raceAttempts {
			if drift, ok := n.tryRecount(); ok {
				found++
				if got := drift.Recorded.Minus(drift.Counted); got != want {
					t.Errorf("organizationtest: drift = %+v, want %+v", got, want)
				}
			}
		}
	})
	if found > 1 {
		t.Errorf("organizationtest: the drift was found %d times, want at most once", found)
	}
	if _, ok, err := w.Counts.Recount(n.ctx, n.id); err != nil || ok != (found == 0) {
		t.Errorf("organizationtest: the last recount found the drift = %t, %v; want %t after %d finds", ok, err,
			found == 0, found)
	}
	n.recountWants(nil, held)
}

// changesAfterRepair checks that a later decrease is subtracted from the repaired usage.
func changesAfterRepair(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	held := n.fill()
	a := n.mustCreateAgent(plan.Pro)
	n.spoil(organization.Usage{})
	if _, found, err := w.Counts.Recount(n.ctx, n.id); err != nil || !found {
		t.Fatalf("organizationtest: recount found a drift = %t, %v; want true", found, err)
	}
	if err := w.Records.Remove(n.ctx, a, agent.Deletion{}); err != nil {
		t.Fatalf("organizationtest: remove an agent: %v", err)
	}
	n.recountWants(nil, held)
}

func recountOfAllReportsEveryDrift(t *testing.T, w CountsFixture) {
	drifted := map[string]bool{}
	for i := range 10 {
		n := w.tenant(t)
		if i%3 == 0 {
			n.spoil(organization.Usage{Agents: int64(i + 1)})
			drifted[n.id] = true
		}
	}
	for _, want := range []int{len(drifted), 0} {
		var mu sync.Mutex
		reported := map[string]int{}
		err := organization.Recount(t.Context(), w.Counts, func(d organization.Drift) {
			mu.Lock()
			defer mu.Unlock()
			reported[d.OrganizationID]++
		})
		if err != nil || len(reported) != want {
			t.Errorf("organizationtest: reported drifts = %v, %v; want %d of %v", reported, err, want, drifted)
		}
		for id, n := range reported {
			if n != 1 || !drifted[id] {
				t.Errorf("organizationtest: %s was reported %d times, want once and only if drifted (%t)", id, n,
					drifted[id])
			}
		}
	}
}
