//go:build unix

package gke

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// arrived returns an agent with the namespace of a new cell, and a snapshot of another cell.
func (w *world) arrived(t *testing.T) (agent.Agent, agent.Snapshot) {
	t.Helper()
	a := w.newAgent(t)
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, time.Now())
	must(t, err)
	s.Handle = "projects/p/global/snapshots/elsewhere"
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	return a, s
}

// adoptSlowly adopts a snapshot by a driver that looks for the data when the test does it, and returns the content.
func (w *world) adoptSlowly(t *testing.T, a agent.Agent, s agent.Snapshot) (content string) {
	t.Helper()
	name := nameOf(t, a, s)
	content = contentOf(a.Namespace(), name)
	o := &kubeclient.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: content},
		Spec: kubeclient.VolumeSnapshotContentSpec{
			Snapshot:       corev1.ObjectReference{Kind: kindSnapshot, Namespace: a.Namespace(), Name: name},
			DeletionPolicy: retain, Driver: "slow.example",
			Source: kubeclient.VolumeSnapshotContentSource{Snapshot: &s.Handle},
		},
	}
	must(t, errorOf(w.admin.VolumeSnapshotContents().Create(t.Context(), o, metav1.CreateOptions{})))
	must(t, w.AdoptSnapshot(t.Context(), a, s))
	return content
}

// find makes the driver find the data of a content.
func (w *world) find(t *testing.T, content string, handle string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		o, err := w.admin.VolumeSnapshotContents().Get(ctx, content, metav1.GetOptions{})
		if err != nil {
			return err
		}
		o.Status = &kubeclient.VolumeSnapshotContentStatus{
			Handle: &handle, CreationTime: new(time.Now().UnixNano()), Ready: new(true),
		}
		_, err = w.admin.VolumeSnapshotContents().UpdateStatus(ctx, o, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) awaitDeleted(t *testing.T, a agent.Agent, s agent.Snapshot) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		gone, err := w.DeleteSnapshot(ctx, a, s)
		if err == nil && !gone {
			err = errors.New("the snapshot is not gone")
		}
		return err
	})
}

// The storage would keep the data, and the cluster the content.
func TestDeleteSnapshot_WaitsUntilTheDataOfAnAdoptedOneIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.arrived(t)
	content := w.adoptSlowly(t, a, s)
	snapshots := w.admin.VolumeSnapshots(a.Namespace())
	for _, state := range []string{"new", "bound"} {
		if err := w.RetainSnapshot(t.Context(), a, s, false); !errors.Is(err, provisioning.ErrSnapshotUnbound) {
			t.Errorf("RetainSnapshot of a %s one = %v, want ErrSnapshotUnbound", state, err)
		}
		if gone, err := w.DeleteSnapshot(t.Context(), a, s); gone || err != nil {
			t.Errorf("DeleteSnapshot of a %s one = %t, %v, want it not gone", state, gone, err)
		}
		there, err := snapshots.Get(t.Context(), nameOf(t, a, s), metav1.GetOptions{})
		if err != nil || there.DeletionTimestamp != nil {
			t.Errorf("the %s VolumeSnapshot is deleted at %v (%v), want it kept", state, there.DeletionTimestamp, err)
		}
		clustertest.Eventually(t, func(ctx context.Context) error {
			there, err := snapshots.Get(ctx, nameOf(t, a, s), metav1.GetOptions{})
			if err == nil && (there.Status == nil || there.Status.Content == nil) {
				err = errors.New("the VolumeSnapshot is not bound")
			}
			return err
		})
	}
	o, err := w.admin.VolumeSnapshotContents().Get(t.Context(), content, metav1.GetOptions{})
	if err != nil || o.Spec.DeletionPolicy != retain {
		t.Errorf("the content has policy %q (%v), want %s", o.Spec.DeletionPolicy, err, retain)
	}
	w.find(t, content, s.Handle)
	w.awaitDeleted(t, a, s)
}

func TestFound_IsTrueOnceTheDataGoesWithTheVolumeSnapshot(t *testing.T) {
	t.Parallel()
	adopted := volumeSnapshotSource{Content: "content"}
	missing := &snapshotError{Message: "VolumeSnapshotContent is missing"}
	lost := &snapshotError{Message: "can not find snapshot"}
	for name, row := range map[string]struct {
		source volumeSnapshotSource
		status volumeSnapshotStatus
		want   bool
	}{
		"of a claim":         {source: volumeSnapshotSource{Claim: "data"}, want: true},
		"adopted":            {source: adopted},
		"before the content": {source: adopted, status: volumeSnapshotStatus{LastError: missing}},
		"bound":              {source: adopted, status: volumeSnapshotStatus{Content: "content"}},
		"bound, and found": {
			source: adopted, status: volumeSnapshotStatus{Content: "content", CutAt: new(metav1.Now())}, want: true,
		},
		"bound, without the data": {
			source: adopted, status: volumeSnapshotStatus{Content: "content", LastError: lost}, want: true,
		},
	} {
		s := &volumeSnapshot{Spec: volumeSnapshotSpec{Source: row.source}, Status: row.status}
		if got := found(s); got != row.want {
			t.Errorf("%s: found = %t, want %t", name, got, row.want)
		}
	}
}

// A worker dies when it has made the VolumeSnapshot, and a person deletes the content.
func TestDeleteSnapshot_DeletesAnAdoptedOneWithoutAContent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.arrived(t)
	o := &kubeclient.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(t, a, s)},
		Spec: kubeclient.VolumeSnapshotSpec{
			Source: kubeclient.VolumeSnapshotSource{Content: new(contentOf(a.Namespace(), nameOf(t, a, s)))},
		},
	}
	must(t, errorOf(w.admin.VolumeSnapshots(a.Namespace()).Create(t.Context(), o, metav1.CreateOptions{})))
	w.awaitDeleted(t, a, s)
}

// A worker adopts the snapshot, and makes the content when another one has deleted the VolumeSnapshot.
func TestDeleteSnapshot_DeletesTheContentOfALateWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.arrived(t)
	c, err := w.client("local")
	must(t, err)
	late := blueprint{agent: a, settings: w.settings}.contentFor(nameOf(t, a, s), s.Handle)
	must(t, c.create(t.Context(), targetOf(late), late))
	w.awaitDeleted(t, a, s)
	if _, err := w.admin.VolumeSnapshotContents().Get(t.Context(), late.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the content is there (%v), want it gone", err)
	}
}

// bindContent binds a content to a VolumeSnapshot that is gone, and waits until the driver protects it.
func (w *world) bindContent(t *testing.T, name string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		o, err := w.admin.VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
		if err != nil || o.Spec.Snapshot.UID != "" && len(o.Finalizers) > 0 {
			return err
		}
		o.Spec.Snapshot.UID = "gone"
		_, err = w.admin.VolumeSnapshotContents().Update(ctx, o, metav1.UpdateOptions{})
		return errors.Join(errors.New("the content is not protected yet"), err)
	})
}

// The snapshot controller has bound the content, and has not written that into the status of the VolumeSnapshot.
func TestDelete_RemovesAContentThatTheSnapshotControllerForgot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.arrived(t)
	c, err := w.client("local")
	must(t, err)
	forgotten := blueprint{agent: a, settings: w.settings}.contentFor(nameOf(t, a, s), s.Handle)
	must(t, c.create(t.Context(), targetOf(forgotten), forgotten))
	w.bindContent(t, forgotten.Name)
	w.deleteUntilGone(t, a)
}

// The agent leaves the cell and is deleted when its namespace is gone there.
func TestDelete_RemovesWhatWasRetainedUntilTheNamespaceWasGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.taken(t)
	must(t, w.RetainSnapshot(t.Context(), a, s, true))
	must(t, w.Delete(t.Context(), a))
	w.awaitGoneButSnapshots(t, a)
	must(t, w.RetainSnapshot(t.Context(), a, s, false))
	must(t, w.Delete(t.Context(), a))
	w.awaitGone(t, a)
}
