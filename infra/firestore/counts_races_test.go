package firestore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// changeDuring changes the organization's agents and keys in every way while do runs. It returns the usage in the end.
func (n countTenant) changeDuring(do func()) organization.Usage {
	n.t.Helper()
	ctx, stop := context.WithCancel(n.Ctx)
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
		n.t.Errorf("a concurrent change failed: %v", failed)
	}
	var held organization.Usage
	p, err := n.agents.List(n.Ctx, agent.Filter{}, page.Request{Limit: page.MaxLimit})
	must(n.t, err)
	for _, a := range p.Items {
		held = held.Plus(a.HeldUsage())
	}
	held.APIKeys = 3
	return held
}

// changeEverything creates, stops, starts, deletes and removes an agent, and creates and revokes a key.
func (n countTenant) changeEverything() error {
	k, err := n.client.Keys().Create(n.Ctx, newKey())
	if err != nil {
		return err
	}
	a, err := n.agents.Create(n.Ctx, agenttest.Draft(plan.Pro))
	if err != nil {
		return err
	}
	for _, trigger := range []agent.Trigger{agent.Stop, agent.Start, agent.Delete} {
		if a, err = n.agents.Change(n.Ctx, a.ID,
			func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, a.UpdatedAt) }); err != nil {
			return err
		}
	}
	return errors.Join(
		n.client.WorkerStore().Remove(n.Ctx, a, agent.Deletion{}), n.client.Keys().Revoke(n.Ctx, k.ID))
}

const (
	// raceAttempts is the number of recounts that race with changes.
	raceAttempts = 8
	// recountTimeout limits a recount that keeps losing against concurrent changes.
	recountTimeout = 300 * time.Millisecond
)

// tryRecount recounts with a timeout. A recount that times out must not report a drift.
func (n countTenant) tryRecount() (drift organization.Drift, found bool) {
	ctx, cancel := context.WithTimeout(n.Ctx, recountTimeout)
	defer cancel()
	drift, found, err := n.counts.Recount(ctx, n.ID)
	if found && err != nil {
		n.t.Errorf("recount reported the drift %+v and the error %v, want one of them", drift, err)
	}
	return drift, found
}

func TestRecount_ConcurrentChangesAreNoDrift(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		n.fill()
		held := n.changeDuring(func() {
			for range raceAttempts {
				if drift, found := n.tryRecount(); found {
					t.Errorf("a concurrent change was reported as the drift %+v", drift)
				}
			}
		})
		n.recountWants(nil, held)
	})
}

func TestRecount_LosesNoConcurrentChange(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		n.fill()
		want := organization.Usage{Agents: 7, APIKeys: -1}
		n.spoil(n.Usage().Plus(want))
		found := 0
		held := n.changeDuring(func() {
			for range raceAttempts {
				if drift, ok := n.tryRecount(); ok {
					found++
					if got := drift.Recorded.Minus(drift.Counted); got != want {
						t.Errorf("drift = %+v, want %+v", got, want)
					}
				}
			}
		})
		if found > 1 {
			t.Errorf("the drift was found %d times, want at most once", found)
		}
		// One that timed out may have repaired the usage without finding that out.
		if _, ok, err := counts.Recount(n.Ctx, n.ID); err != nil || ok && found > 0 {
			t.Errorf("the last recount found the drift = %t, %v, after %d finds", ok, err, found)
		}
		n.recountWants(nil, held)
	})
}

// TestRecount_LaterChangesUseTheRepairedUsage checks that a later decrease is subtracted from the repaired usage.
func TestRecount_LaterChangesUseTheRepairedUsage(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		held := n.fill()
		a := n.Create(plan.Pro)
		n.spoil(organization.Usage{})
		if _, found, err := counts.Recount(n.Ctx, n.ID); err != nil || !found {
			t.Fatalf("recount found a drift = %t, %v; want true", found, err)
		}
		must(t, n.client.WorkerStore().Remove(n.Ctx, a, agent.Deletion{}))
		n.recountWants(nil, held)
	})
}

func TestRecount_OfAllOrganizationsReportsEachDrift(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		drifted := map[string]bool{}
		for i := range 10 {
			n := newCountTenant(t, counts)
			if i%3 == 0 {
				n.spoil(organization.Usage{Agents: int64(i + 1)})
				drifted[n.ID] = true
			}
		}
		for _, want := range []int{len(drifted), 0} {
			var mu sync.Mutex
			reported := map[string]int{}
			err := organization.Recount(t.Context(), counts, func(d organization.Drift) {
				mu.Lock()
				defer mu.Unlock()
				reported[d.OrganizationID]++
			})
			if err != nil || len(reported) != want {
				t.Errorf("reported drifts = %v, %v; want %d of %v", reported, err, want, drifted)
			}
			for id, n := range reported {
				if n != 1 || !drifted[id] {
					t.Errorf("%s was reported %d times, want once and only if drifted (%t)", id, n, drifted[id])
				}
			}
		}
	})
}
