package provisioningtest

import (
	"errors"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/provisioning"
)

// larger returns the agent on the next larger plan.
func larger(t *testing.T, a agent.Agent) agent.Agent {
	t.Helper()
	p, err := plan.Get(a.Plan)
	if err != nil || p.Next() == "" {
		t.Fatalf("there is no plan above %s (%v)", a.Plan, err)
	}
	a.Plan = p.Next()
	a.Generation++
	return a
}

// ran returns the agent as one that became ready.
func ran(a agent.Agent) agent.Agent {
	a = a.Clone()
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	return a
}

func testVolumeGrows(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	a = ran(a)
	grown := larger(t, a)
	w.apply(t, grown)
	w.awaitReady(t, grown)
	w.apply(t, a, agent.StageStorage) // by a slow worker
	w.apply(t, grown, agent.StageStorage)
}

func testVolumeUnbound(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace, agent.StagePolicy, agent.StageStorage)
	grown := larger(t, a)
	w.apply(t, grown, agent.StagePolicy)
	if err := w.Cluster.Apply(t.Context(), grown, agent.StageStorage, Input()); !errors.Is(err,
		provisioning.ErrVolumeUnbound) {
		t.Fatalf("Apply to a volume that no pod has used: error %v, want ErrVolumeUnbound", err)
	}
	w.apply(t, grown, agent.StageIdentity, agent.StageSecrets, agent.StageRuntime, agent.StageRoute)
	w.awaitReady(t, grown)
	w.apply(t, grown, agent.StageStorage)
}

func testVolumeLost(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace, agent.StagePolicy)
	err := w.Cluster.Apply(t.Context(), ran(a), agent.StageStorage, Input())
	if !fault.Is(err, fault.Unavailable) || fault.Code(err) != provisioning.CodeNamespaceMissing {
		t.Errorf("Apply to the lost volume of an agent that ran: error %v, want %s", err,
			provisioning.CodeNamespaceMissing)
	}
	w.apply(t, a, agent.StageStorage) // the client has started it
}
