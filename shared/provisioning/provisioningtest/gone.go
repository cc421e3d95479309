package provisioningtest

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func testDelete(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	for range 2 {
		if err := w.Cluster.Delete(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	w.awaitGone(t, a)
	if err := w.Cluster.Delete(t.Context(), a); err != nil {
		t.Errorf("Delete of a deleted agent: %v", err)
	}
	w.awaitGone(t, a)
	if err := w.Cluster.Apply(t.Context(), a, agent.StageRuntime,
		Input()); fault.Code(err) != provisioning.CodeNamespaceMissing {
		t.Errorf("Apply to a deleted agent: error %v, want %s", err, provisioning.CodeNamespaceMissing)
	}
}

func testDeleteHalf(t *testing.T, w Fixture) {
	stages := agent.StageNames()
	for i := range stages {
		a := w.Agent(t)
		w.apply(t, a, stages[:i+1]...)
		if err := w.Cluster.Delete(t.Context(), a); err != nil {
			t.Fatalf("Delete after stage %s: %v", stages[i], err)
		}
		w.awaitGone(t, a)
	}
}

func testDeleteNothing(t *testing.T, w Fixture) {
	a := w.Agent(t)
	if err := w.Cluster.Delete(t.Context(), a); err != nil {
		t.Error(err)
	}
	w.awaitGone(t, a)
}

func testNamespaces(t *testing.T, w Fixture) {
	a := w.Agent(t)
	begun := time.Now()
	w.apply(t, a, agent.StageNamespace)
	p := w.placement(t, a)
	if p == nil {
		t.Fatal("Namespaces does not list the agent's namespace")
	}
	// Clusters report times in whole seconds.
	if p.Cell != a.Cell || p.UID == "" || p.CreatedAt.Before(begun.Add(-2*time.Second)) ||
		p.CreatedAt.After(time.Now().Add(2*time.Second)) {
		t.Errorf("placement %+v", *p)
	}
	other := *p
	other.UID = "00000000-0000-0000-0000-000000000000"
	if err := w.Namespaces.DeleteNamespace(t.Context(), other); err != nil {
		t.Errorf("DeleteNamespace with another UID: %v, want success without effect", err)
	}
	w.apply(t, a, agent.StagePolicy) // the namespace accepts new objects, so it is not being deleted
	if err := w.Namespaces.DeleteNamespace(t.Context(), *p); err != nil {
		t.Fatal(err)
	}
	w.awaitGone(t, a)
	if w.placement(t, a) != nil {
		t.Error("Namespaces lists a namespace that is gone")
	}
	if err := w.Namespaces.DeleteNamespace(t.Context(), *p); err != nil {
		t.Errorf("DeleteNamespace of a namespace that is gone: %v", err)
	}
}

func (w Fixture) placement(t *testing.T, a agent.Agent) *provisioning.Placement {
	t.Helper()
	all, err := w.Namespaces.Namespaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if p.AgentID == a.ID {
			return &p
		}
	}
	return nil
}
