package provisioningtest

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

func testMarkNamespace(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	since := time.Now().Add(-time.Hour).Truncate(time.Second)
	other := *w.placement(t, a)
	other.UID = "00000000-0000-0000-0000-000000000000"
	w.mark(t, other, since)
	w.wantMark(t, a, time.Time{})
	w.awaitReady(t, a) // the pod was not stopped
	for range 2 {
		w.mark(t, *w.placement(t, a), since)
		w.wantMark(t, a, since)
	}
	w.awaitNotReady(t, a)
	// The agent came back: applying it starts its pod, and only MarkNamespace removes the mark.
	w.apply(t, a)
	w.awaitReady(t, a)
	w.wantMark(t, a, since)
	w.mark(t, *w.placement(t, a), time.Time{})
	w.wantMark(t, a, time.Time{})
	w.awaitReady(t, a)

	half := w.Agent(t)
	w.apply(t, half, agent.StageNamespace)
	p := *w.placement(t, half)
	w.mark(t, p, since)
	w.wantMark(t, half, since)
	if err := w.Namespaces.DeleteNamespace(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if p := w.placement(t, half); p != nil {
		t.Error("Namespaces lists a namespace that is being deleted")
	}
	w.awaitGone(t, half)
	w.mark(t, p, since) // a namespace that is gone
}

func (w Fixture) mark(t *testing.T, p provisioning.Placement, since time.Time) {
	t.Helper()
	if err := w.Namespaces.MarkNamespace(t.Context(), p, since); err != nil {
		t.Fatalf("MarkNamespace: %v", err)
	}
}

func (w Fixture) wantMark(t *testing.T, a agent.Agent, since time.Time) {
	t.Helper()
	p := w.placement(t, a)
	if p == nil || !p.OrphanedSince.Equal(since) {
		t.Errorf("placement = %+v, want it orphaned since %s", p, since)
	}
}
