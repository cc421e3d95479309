package provisioning_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// slowDeletion is a cluster that says of an agent what a test wants.
type slowDeletion struct {
	objects
	gone *provisioning.Gone
}

func (c slowDeletion) CheckGone(context.Context, agent.Agent) (provisioning.Gone, error) {
	return *c.gone, nil
}

// removals keeps what the removal of an agent's record stores.
type removals struct {
	simulationtest.WorkerStore
	removed *agent.Deletion
}

func (r removals) Remove(ctx context.Context, a agent.Agent, d agent.Deletion) error {
	*r.removed = d
	return r.WorkerStore.Remove(ctx, a, d)
}

// TestReconcile_RecordsWhenEachResourceWasObservedGone looks at a deletion once a minute. Every look finds something
// else, the third one a namespace that a slower worker has made again.
func TestReconcile_RecordsWhenEachResourceWasObservedGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.settle()
	begun := w.Now()
	at := func(minutes int) time.Time { return begun.Add(time.Duration(minutes) * time.Minute) }
	var gone provisioning.Gone
	var removed agent.Deletion
	r, now := w.reconciler(), begun
	r.Cluster, r.Records = slowDeletion{w.objects(), &gone}, removals{w.records(), &removed}
	r.Now = func() time.Time { return now }
	w.change(func(a *agent.Agent) {
		if err := a.RequestDeletion("user", at(0)); err != nil {
			t.Error(err)
		}
	})
	requested := agent.Deletion{RequestedAt: at(0), RequestedBy: "user", ClusterRequestedAt: at(1)}
	with := func(change func(*agent.Deletion)) agent.Deletion {
		d := requested
		change(&d)
		return d
	}
	for i, look := range []struct {
		found provisioning.Gone
		want  agent.Deletion
	}{
		{provisioning.Gone{}, requested},
		{provisioning.Gone{Namespace: true}, with(func(d *agent.Deletion) { d.NamespaceGoneAt = at(2) })},
		{provisioning.Gone{}, requested},
		{provisioning.Gone{Namespace: true}, with(func(d *agent.Deletion) { d.NamespaceGoneAt = at(4) })},
		{provisioning.Gone{Namespace: true}, with(func(d *agent.Deletion) { d.NamespaceGoneAt = at(4) })},
	} {
		gone, now = look.found, at(i+1)
		if err := r.Reconcile(t.Context(), w.id); err != nil {
			t.Fatalf("look %d: %v", i+1, err)
		}
		if diff := cmp.Diff(look.want, w.record().Deletion); diff != "" {
			t.Fatalf("the record after look %d (-want +got):\n%s", i+1, diff)
		}
	}
	gone, now = provisioning.Gone{Namespace: true, Volume: true, Snapshots: true}, at(6)
	must(t, r.Reconcile(t.Context(), w.id))
	want := with(func(d *agent.Deletion) {
		d.NamespaceGoneAt, d.VolumeGoneAt, d.SnapshotsGoneAt = at(4), at(6), at(6)
		d.SecretsRequestedAt, d.SecretsGoneAt = at(6), at(6)
	})
	if diff := cmp.Diff(want, removed); diff != "" {
		t.Errorf("what the removal stores (-want +got):\n%s", diff)
	}
	if w.record().ID != "" {
		t.Errorf("the record still exists: %+v", w.record())
	}
}
