//go:build unix

package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// newSnapshot returns an agent that runs, and a snapshot that its record has and the cluster does not.
func (w *world) newSnapshot(t *testing.T) (agent.Agent, agent.Snapshot) {
	t.Helper()
	a := w.readyAgent(t)
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, time.Now())
	must(t, err)
	return a, s
}

// taken returns an agent that runs, with a snapshot that is ready.
func (w *world) taken(t *testing.T) (agent.Agent, agent.Snapshot) {
	t.Helper()
	a, s := w.newSnapshot(t)
	clustertest.Eventually(t, func(ctx context.Context) error {
		seen, err := w.Snapshot(ctx, a, s, false)
		if err == nil && !seen.Ready {
			err = fmt.Errorf("the snapshot is not ready: %+v", seen)
		}
		a.RecordSnapshot(s.ID, seen, time.Now())
		return err
	})
	s, err := a.Snapshot(s.ID)
	must(t, err)
	return a, s
}

// clone returns the record of an agent whose volume is made from a snapshot of another one.
func (w *world) clone(t *testing.T, of agent.Snapshot) agent.Agent {
	t.Helper()
	a := w.newAgent(t)
	a.Volume.Source = agent.VolumeSource{SnapshotID: of.ID, Handle: of.Handle}
	return a
}

// nameOf is the name of the VolumeSnapshot of an agent's snapshot.
func nameOf(t *testing.T, a agent.Agent, s agent.Snapshot) string {
	t.Helper()
	name, err := snapshotName(a, s.ID)
	must(t, err)
	return name
}

// sources names what stands for the snapshot of another agent.
func (w *world) sources(t *testing.T, a agent.Agent) (names []string) {
	t.Helper()
	snapshots, err := w.admin.VolumeSnapshots(a.Namespace()).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	add := func(kind string, o metav1.Object) {
		if o.GetDeletionTimestamp() != nil {
			kind = "deleted " + kind
		}
		names = append(names, kind+" "+o.GetName())
	}
	for i := range snapshots.Items {
		add("VolumeSnapshot", &snapshots.Items[i])
	}
	name := contentOf(a.Namespace(), "source-0")
	if o, err := w.admin.VolumeSnapshotContents().Get(t.Context(), name, metav1.GetOptions{}); err == nil {
		add("VolumeSnapshotContent", o)
	} else if !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return names
}

func (w *world) wantSources(t *testing.T, a agent.Agent, want ...string) {
	t.Helper()
	clustertest.Eventually(t, func(context.Context) error {
		if diff := cmp.Diff(want, w.sources(t, a)); diff != "" {
			return fmt.Errorf("sources (-want +got):\n%s", diff)
		}
		return nil
	})
}

// wantUsable checks that the storage still has the data of a snapshot, which no clone may take along.
func (w *world) wantUsable(t *testing.T, a agent.Agent, s agent.Snapshot) {
	t.Helper()
	other := w.clone(t, s)
	w.apply(t, other, testRuntimeInput())
	w.awaitReady(t, other)
	if seen, err := w.Snapshot(t.Context(), a, s, false); err != nil || !seen.Ready {
		t.Errorf("the snapshot that was cloned = %+v, %v, want it ready", seen, err)
	}
}

func TestApply_MakesACloneFromAnotherAgentsSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, s := w.taken(t)
	a := w.clone(t, s)
	for range 2 {
		w.apply(t, a, testRuntimeInput())
	}
	w.prune(t, a) // the volume may not be made yet: then everything stays
	w.awaitReady(t, a)
	w.prune(t, a)
	w.wantSources(t, a)
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	before := w.versions(t, w.objects(t, a, testRuntimeInput(), agent.StageNames()))
	w.apply(t, a, testRuntimeInput())
	if diff := cmp.Diff(before, w.versions(t, w.objects(t, a, testRuntimeInput(), agent.StageNames()))); diff != "" {
		t.Errorf("applying the clone again changed objects (-before +after):\n%s", diff)
	}
	w.wantSources(t, a)
	must(t, w.Delete(t.Context(), a))
	w.awaitGone(t, a)
	w.wantUsable(t, owner, s)
}

// The snapshot was deleted between the creation of the clone and its first start.
func TestCheckReady_SaysThatTheSnapshotOfACloneIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, s := w.taken(t)
	s.Handle += "-deleted"
	a := w.clone(t, s)
	a.Volume.Unmade = true
	w.apply(t, a, testRuntimeInput())
	w.eventuallyFails(t, a, codeSnapshotGone, true, "no longer exists")
}

// A worker dies when it has marked the content.
func TestPrune_FinishesWhatAnotherWorkerBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, s := w.taken(t)
	a := w.clone(t, s)
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/volumesnapshots/") {
			return nil, errors.New("the worker dies")
		}
		return nil, nil
	}
	if err := w.Prune(t.Context(), a); err == nil {
		t.Error("Prune without a cluster: no error")
	}
	w.calls.breaks = nil
	w.prune(t, a)
	w.wantSources(t, a)
}

// The volume of a stopped clone is made at its next start.
func TestPrune_KeepsTheSourceOfAVolumeThatIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, s := w.taken(t)
	a := w.clone(t, s)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace, agent.StagePolicy, agent.StageStorage)
	w.prune(t, a)
	w.wantSources(t, a, "VolumeSnapshot source-0", "VolumeSnapshotContent "+contentOf(a.Namespace(), "source-0"))
}

func TestDelete_RemovesTheSourceOfAClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	owner, s := w.taken(t)
	a := w.clone(t, s)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace, agent.StagePolicy, agent.StageStorage)
	w.deleteUntilGone(t, a)
	w.wantSources(t, a)
	w.wantUsable(t, owner, s)
}

// TestCheckGone_ReportsASnapshotThatIsLeft has a VolumeSnapshot that no worker has seen taken, and slow storage. A
// person has taken the VolumeSnapshot from the controller that waits for the storage.
func TestCheckGone_ReportsASnapshotThatIsLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.newSnapshot(t)
	must(t, errorOf(w.Snapshot(t.Context(), a, s, false)))
	content := w.holdContent(t, a, s)
	must(t, w.Delete(t.Context(), a))
	w.freeSnapshot(t, a, s, content)
	w.awaitGoneButSnapshots(t, a)
	w.releaseContent(t, content)
	w.awaitGone(t, a)
}

// holdContent keeps the content of a snapshot from being deleted, and returns its name.
func (w *world) holdContent(t *testing.T, a agent.Agent, s agent.Snapshot) (name string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		there, err := w.admin.VolumeSnapshots(a.Namespace()).Get(ctx, nameOf(t, a, s), metav1.GetOptions{})
		if err == nil && (there.Status == nil || there.Status.Content == nil) {
			err = errors.New("the VolumeSnapshot has no content")
		}
		if err != nil {
			return err
		}
		name = *there.Status.Content
		return w.changeFinalizers(ctx, name, func(f []string) []string { return append(f, "agents.example/test") })
	})
	return name
}

// freeSnapshot lets a VolumeSnapshot go that is being deleted, although its content is there.
func (w *world) freeSnapshot(t *testing.T, a agent.Agent, s agent.Snapshot, content string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		there, err := w.admin.VolumeSnapshots(a.Namespace()).Get(ctx, nameOf(t, a, s), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && there.DeletionTimestamp == nil {
			return errors.New("the VolumeSnapshot is not being deleted")
		}
		if o, err := w.admin.VolumeSnapshotContents().Get(ctx, content, metav1.GetOptions{}); err != nil ||
			o.DeletionTimestamp == nil {
			return fmt.Errorf("the content is not being deleted: %w", err)
		}
		if err == nil {
			there.Finalizers = nil
			_, err = w.admin.VolumeSnapshots(a.Namespace()).Update(ctx, there, metav1.UpdateOptions{})
		}
		return errors.Join(errors.New("the VolumeSnapshot is there"), err)
	})
}

func (w *world) releaseContent(t *testing.T, name string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		return w.changeFinalizers(ctx, name, func([]string) []string { return nil })
	})
}

func (w *world) changeFinalizers(ctx context.Context, content string, change func([]string) []string) error {
	o, err := w.admin.VolumeSnapshotContents().Get(ctx, content, metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.Finalizers = change(o.Finalizers)
	_, err = w.admin.VolumeSnapshotContents().Update(ctx, o, metav1.UpdateOptions{})
	return err
}

func TestDeleteSnapshot_WaitsForTheData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.newSnapshot(t)
	must(t, errorOf(w.Snapshot(t.Context(), a, s, false)))
	content := w.holdContent(t, a, s)
	must(t, errorOf(w.DeleteSnapshot(t.Context(), a, s)))
	o, err := w.admin.VolumeSnapshotContents().Get(t.Context(), content, metav1.GetOptions{})
	if err != nil || o.Labels[labelAgent] != a.ID || o.Labels[labelSnapshot] != nameOf(t, a, s) {
		t.Errorf("the content has labels %v (%v), want the agent's and the snapshot's", o.Labels, err)
	}
	w.freeSnapshot(t, a, s, content)
	if gone, err := w.DeleteSnapshot(t.Context(), a, s); gone || err != nil {
		t.Errorf("DeleteSnapshot while storage has the data = %t, %v, want it not gone", gone, err)
	}
	w.releaseContent(t, content)
	w.awaitDeleted(t, a, s)
}

func TestApply_ASourceThatIsGoneIsPermanent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.taken(t)
	must(t, a.Restore(s.ID, time.Now()))
	snapshots := w.admin.VolumeSnapshots(a.Namespace())
	w.apply(t, a, testRuntimeInput(), agent.StagePolicy, agent.StageStorage)
	before := w.versions(t, w.objects(t, a, testRuntimeInput(), []agent.StageName{agent.StageStorage}))
	if err := w.admin.PersistentVolumeClaims(a.Namespace()).Delete(t.Context(), claimName(1),
		metav1.DeleteOptions{}); err != nil || len(before) != 1 {
		t.Fatalf("%d objects, want the claim (%v)", len(before), err)
	}
	awaitAbsent(t, w.admin.PersistentVolumeClaims(a.Namespace()).Get, claimName(1))
	must(t, snapshots.Delete(t.Context(), nameOf(t, a, s), metav1.DeleteOptions{}))
	wantPermanent(t, w.Apply(t.Context(), a, agent.StageStorage, testRuntimeInput()), codeSnapshotGone)
	clustertest.Eventually(t, func(ctx context.Context) error {
		if _, err := snapshots.Get(ctx, nameOf(t, a, s), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the snapshot is still there: %w", err)
		}
		err := w.Apply(ctx, a, agent.StageStorage, testRuntimeInput())
		var refused *provisioning.Permanent
		if !errors.As(err, &refused) || refused.Code != codeSnapshotGone {
			return fmt.Errorf("error %w, want %s", err, codeSnapshotGone)
		}
		return nil
	})
}

func TestApplyReader_ASnapshotThatIsGoneIsPermanent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.taken(t)
	a.Reader = agent.Reader{Number: 1, SnapshotID: s.ID}
	must(t, w.ApplyReader(t.Context(), a, s))
	must(t, w.admin.VolumeSnapshots(a.Namespace()).Delete(t.Context(), nameOf(t, a, s), metav1.DeleteOptions{}))
	wantPermanent(t, w.ApplyReader(t.Context(), a, s), codeSnapshotGone)
}

// TestDeleteReader_GoesWithItsNamespace: a worker would try it forever, and no other export of the agent could begin.
func TestDeleteReader_GoesWithItsNamespace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Reader = agent.Reader{Number: 1, SnapshotID: testSnapshot}
	if gone, err := w.DeleteReader(t.Context(), a, a.ReaderCopies()); !gone || err != nil {
		t.Errorf("without the agent's namespace: gone %v, %v; want that the reader is gone", gone, err)
	}
}

// TestApply_KeepsAVolumeOfAnotherSource: a person has restored the volume from a backup.
func TestApply_KeepsAVolumeOfAnotherSource(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	a.Status, a.LastReadyIsolation = agent.Running, agent.Plain
	a.Volume.Source = agent.VolumeSource{SnapshotID: foreignSnapshot, Handle: "h"}
	w.apply(t, a, testRuntimeInput(), agent.StageStorage)
}

// TestSnapshot_ReportsNoCutBeforeTheHandle: the pod may write again once the record knows the cut.
func TestSnapshot_ReportsNoCutBeforeTheHandle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.taken(t)
	s.CutAt, s.Handle = time.Time{}, ""
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/volumesnapshotcontents/") {
			return answerObject(volumeSnapshotContent{TypeMeta: typed(snapshotVersion, kindContent)})
		}
		return nil, nil
	}
	seen, err := w.Snapshot(t.Context(), a, s, false)
	if seen != (agent.SnapshotState{}) || err != nil {
		t.Errorf("a snapshot whose handle is not known = %+v, %v, want nothing known", seen, err)
	}
}

// TestSnapshot_DropsOneThatAPodDisturbed: the pod started after a worker looked and before storage cut the snapshot.
func TestSnapshot_DropsOneThatAPodDisturbed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.newSnapshot(t)
	snapshots := w.admin.VolumeSnapshots(a.Namespace())
	asked := &kubeclient.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: nameOf(t, a, s)},
		Spec: kubeclient.VolumeSnapshotSpec{
			Source: kubeclient.VolumeSnapshotSource{Claim: new(volumeName)}, Class: new("storage-that-never-cuts"),
		},
	}
	must(t, errorOf(snapshots.Create(t.Context(), asked, metav1.CreateOptions{})))
	clustertest.Eventually(t, func(ctx context.Context) error {
		if _, err := w.Snapshot(ctx, a, s, true); !errors.Is(err, provisioning.ErrVolumeInUse) {
			return fmt.Errorf("error %w, want ErrVolumeInUse", err)
		}
		return nil
	})
	awaitAbsent(t, snapshots.Get, asked.Name)
}

// Another snapshot would have what was written since.
func TestSnapshot_TakesNoOtherOneInPlaceOfOneThatWasCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, s := w.newSnapshot(t)
	s.CutAt, s.Handle = time.Now(), "handle"
	_, err := w.Snapshot(t.Context(), a, s, false)
	wantPermanent(t, err, codeSnapshotGone)
}

func TestDeleteSources_DeletesThoseWithoutANamespace(t *testing.T) {
	t.Parallel()
	const database = "namespaces-gone"
	w := newWorld(t)
	c, err := w.client("local")
	must(t, err)
	_, s := w.taken(t)
	makeSource := func(change func(*blueprint)) string {
		t.Helper()
		b, err := w.blueprint(w.clone(t, s), testRuntimeInput())
		must(t, err)
		b.cloning = true
		change(&b)
		content := b.foreignSource()[1]
		must(t, errorOf(c.apply(t.Context(), content)))
		name := content.GetName()
		t.Cleanup(func() {
			_ = w.admin.VolumeSnapshotContents().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})
		})
		return name
	}
	orphan := makeSource(func(b *blueprint) { b.settings.Database = database })
	foreign := makeSource(func(b *blueprint) { b.settings.Database = "another" })
	used := makeSource(func(b *blueprint) {
		b.settings.Database = database
		w.apply(t, b.agent, testRuntimeInput(), agent.StageNamespace)
	})
	there := func(name string) bool {
		o, err := w.admin.VolumeSnapshotContents().Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && o.DeletionTimestamp == nil
	}
	if err := c.deleteSources(t.Context(), database, time.Now().Add(-time.Hour)); err != nil || !there(orphan) {
		t.Errorf("a young source without a namespace was deleted, want it kept (%v)", err)
	}
	must(t, c.deleteSources(t.Context(), database, time.Now().Add(time.Hour)))
	if there(orphan) || !there(foreign) || !there(used) {
		t.Errorf("the source without a namespace is there: %t; those of another database and of an agent: %t, %t",
			there(orphan), there(foreign), there(used))
	}
	if err := w.DeleteSources(t.Context()); err != nil {
		t.Error(err)
	}
}

// The namespace went while the snapshot controller bound the content. Without its mark, the driver keeps the content.
func TestDeleteSources_DeletesAContentThatTheSnapshotControllerForgot(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := w.client("local")
	must(t, err)
	_, s := w.taken(t)
	b, err := w.blueprint(w.clone(t, s), testRuntimeInput())
	must(t, err)
	b.cloning, b.settings.Database = true, "controller-forgot"
	content := b.foreignSource()[1]
	must(t, errorOf(c.apply(t.Context(), content)))
	w.bindContent(t, content.GetName())
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := c.deleteSources(ctx, b.settings.Database, time.Now().Add(time.Hour)); err != nil {
			return err
		}
		_, err := w.admin.VolumeSnapshotContents().Get(ctx, content.GetName(), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("the content is there"), err)
	})
}

func TestStorageProblem_IsShortAndInOurWords(t *testing.T) {
	t.Parallel()
	const notYet = "The cluster's storage has not taken the snapshot yet: "
	for name, row := range map[string]struct {
		message, want string
	}{
		"nothing":     {},
		"other texts": {message: "disk is on fire", want: notYet + "disk is on fire"},
		"too many": {
			message: "googleapi: Error 403: Operation rate exceeded for resource 'projects/p', rateLimitExceeded",
			want: "The cluster's storage takes only a few snapshots of a volume in an hour. " +
				"It takes this one later.",
		},
		"long texts": {
			message: strings.Repeat("x", 300),
			want:    notYet + strings.Repeat("x", 200) + "...",
		},
	} {
		s := &volumeSnapshot{}
		if row.message != "" {
			s.Status.LastError = &snapshotError{Message: row.message}
		}
		if got := storageProblem(s); got != row.want {
			t.Errorf("%s: problem %q, want %q", name, got, row.want)
		}
	}
}

func TestDisturbed_ComparesThePodsStartWithTheCut(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		started, cut time.Time
		want         bool
	}{
		"no pod has started":         {cut: now},
		"before the cut":             {started: now.Add(-time.Second), cut: now, want: true},
		"in the second of the cut":   {started: now, cut: now},
		"after the cut":              {started: now.Add(time.Second), cut: now},
		"started, and it is not cut": {started: now, want: true},
	} {
		pod, s := &corev1.Pod{}, &volumeSnapshot{}
		if !row.started.IsZero() {
			pod.Status.StartTime = new(metav1.NewTime(row.started))
		}
		if !row.cut.IsZero() {
			s.Status.CutAt = new(metav1.NewTime(row.cut))
		}
		if got := disturbed(s, pod); got != row.want {
			t.Errorf("%s: disturbed = %t, want %t", name, got, row.want)
		}
	}
	if disturbed(&volumeSnapshot{}, nil) {
		t.Error("a snapshot is disturbed without a pod")
	}
}
