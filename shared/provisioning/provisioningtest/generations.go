package provisioningtest

import (
	"errors"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// testStale applies a generation after a newer one.
func testStale(t *testing.T, w Fixture) {
	former := w.Agent(t)
	a := former
	a.Generation, a.Rollout = former.Generation+2, former.Rollout+1
	w.apply(t, a)
	w.awaitReady(t, a)
	var stale *provisioning.Stale
	if err := w.Cluster.Apply(t.Context(), former, agent.StageRuntime, Input()); !errors.As(err, &stale) ||
		stale.Generation != a.Generation {
		t.Errorf("Apply of a former generation: error %v, want Stale with generation %d", err, a.Generation)
	}
	stopped := former
	stopped.Status = agent.Stopped
	if err := w.Cluster.Apply(t.Context(), stopped, agent.StageRuntime,
		provisioning.RuntimeInput{}); !errors.As(err, &stale) {
		t.Errorf("scale-down of a former generation: error %v, want Stale", err)
	}
	w.awaitReady(t, a)
	former.Generation, former.Rollout = a.Generation+1, a.Rollout+1
	w.apply(t, former)
	w.awaitReady(t, former)
}

// testPrune prunes while a generation runs, then as a worker of a former generation.
func testPrune(t *testing.T, w Fixture) {
	a := w.Agent(t)
	if err := w.Cluster.Prune(t.Context(), a); err != nil {
		t.Errorf("Prune without objects: %v", err)
	}
	w.apply(t, a)
	w.awaitReady(t, a)
	former := a
	a.Generation++
	a.Rollout++
	w.apply(t, a, agent.StageSecrets, agent.StageRuntime)
	w.awaitReady(t, a)
	for range 2 {
		for _, by := range []agent.Agent{former, a} {
			if err := w.Cluster.Prune(t.Context(), by); err != nil {
				t.Errorf("Prune: %v", err)
			}
		}
	}
	w.apply(t, a)
	w.awaitReady(t, a)
}
