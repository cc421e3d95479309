package simulator

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/emulators/simulator/podworker"
	"agents.example/controlplane/emulators/simulator/process"
	"agents.example/controlplane/emulators/simulator/realnode"
)

// The part of the driver of persistent disks: it copies the directories of volumes.

const (
	// snapshotDriver is the driver of persistent disks on GKE, which the classes of a cell name.
	snapshotDriver = "pd.csi.storage.gke.io"
	// handlePrefix begins what storage calls snapshots.
	handlePrefix = "projects/local/global/snapshots/"
	// driverPoll is how often the driver asks Compute Engine whether a snapshot is cut.
	driverPoll = time.Second
	// uploadTime is how long a snapshot that is known to be cut cannot be used yet.
	uploadTime = 300 * time.Millisecond
	// diskSnapshots is how many snapshots Compute Engine takes of a disk within diskPeriod.
	diskSnapshots, diskPeriod = 6, time.Hour
)

// disks counts the snapshots of disks. It forgets them when the simulator ends.
type disks struct {
	now func() time.Time

	mu    sync.Mutex
	taken map[string][]time.Time
}

// take counts a snapshot of a disk, or reports that the disk had too many. The returned function takes that back.
func (d *disks) take(disk string) (undo func(), ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	recent := slices.DeleteFunc(d.taken[disk], func(t time.Time) bool { return now.Sub(t) >= diskPeriod })
	if ok = len(recent) < diskSnapshots; ok {
		recent = append(recent, now)
	}
	if d.taken == nil {
		d.taken = map[string][]time.Time{}
	}
	d.taken[disk] = recent
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if i := slices.Index(d.taken[disk], now); i >= 0 {
			d.taken[disk] = slices.Delete(d.taken[disk], i, i+1)
		}
	}, ok
}

// volumePrefix begins the names of volumes; the uid of the claim follows, which is also the volume's handle.
const volumePrefix = "pvc-"

func handleOf(volume *corev1.PersistentVolume) string {
	return strings.TrimPrefix(volume.Name, volumePrefix)
}

// syncContent takes or finds the snapshot of a content, or removes the one of a deleted content.
func (s *Simulator) syncContent(ctx context.Context, name string) error {
	content, err := s.client.VolumeSnapshotContents().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return ignoreNotFound(err)
	case content.Spec.Driver != snapshotDriver:
		return nil // of another driver
	case content.DeletionTimestamp != nil:
		return s.releaseContent(ctx, content)
	case content.Spec.Snapshot.UID != "" && !slices.Contains(content.Finalizers, finalizerContent):
		content = content.DeepCopy()
		content.Finalizers = append(content.Finalizers, finalizerContent)
		_, err := s.client.VolumeSnapshotContents().Update(ctx, content, metav1.UpdateOptions{})
		return ignoreNotFound(err) // the change comes back here
	}
	status := kubeclient.VolumeSnapshotContentStatus{}
	if content.Status != nil {
		status = *content.DeepCopy().Status
	}
	if err := s.advance(ctx, content, &status); err != nil {
		return err
	}
	if content.Status != nil && equality.Semantic.DeepEqual(*content.Status, status) {
		return nil
	}
	content = content.DeepCopy()
	content.Status = &status
	_, err = s.client.VolumeSnapshotContents().UpdateStatus(ctx, content, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// advance takes or finds a snapshot and, a moment later, makes it ready.
func (s *Simulator) advance(ctx context.Context, o *kubeclient.VolumeSnapshotContent,
	status *kubeclient.VolumeSnapshotContentStatus,
) error {
	again := func(after time.Duration) { s.snapshotter.contents.keys.AddAfter(o.Name, after) }
	switch {
	case status.Ready != nil && *status.Ready:
		return nil
	case status.Handle == nil || status.CreationTime == nil:
		handle, taken, err := s.cut(ctx, o)
		var why problem
		if errors.As(err, &why) {
			again(snapshotRetry)
			text := fmt.Sprintf("Failed to check and update snapshot content: failed to take snapshot of the volume "+
				"%s: %q", sourceOf(o), why)
			status.Ready, status.Error = new(false), errorOf(text, status.Error)
			return nil
		}
		if err != nil {
			return err
		}
		if left := driverPoll - time.Since(taken.CutAt); left > 0 {
			again(left)
			return nil
		}
		*status = kubeclient.VolumeSnapshotContentStatus{
			Handle: &handle, CreationTime: new(taken.CutAt.UnixNano()), RestoreSize: &taken.Size, Ready: new(false),
		}
	}
	if left := driverPoll + uploadTime - time.Since(time.Unix(0, *status.CreationTime)); left > 0 {
		again(left)
		return nil
	}
	status.Ready = new(true)
	return nil
}

func sourceOf(o *kubeclient.VolumeSnapshotContent) string {
	if o.Spec.Source.Volume != nil {
		return *o.Spec.Source.Volume
	}
	return *o.Spec.Source.Snapshot
}

// cut returns the snapshot of a content, which it takes if the content is of a volume. It may be repeated.
func (s *Simulator) cut(ctx context.Context, o *kubeclient.VolumeSnapshotContent) (handle string,
	taken podworker.Snapshot, err error,
) {
	if o.Spec.Source.Snapshot != nil {
		handle = *o.Spec.Source.Snapshot
		found, ok, err := s.runtime.Snapshot(path.Base(handle))
		if err == nil && (!ok || !strings.HasPrefix(handle, handlePrefix)) {
			err = problemf("can not find snapshot for snapshotID %s", handle)
		}
		return handle, found, err
	}
	name := "snapshot-" + strings.TrimPrefix(o.Name, "snapcontent-")
	handle = handlePrefix + name
	if taken, ok, err := s.runtime.Snapshot(name); ok || err != nil {
		return handle, taken, err // of an attempt that was interrupted
	}
	volume, err := s.client.PersistentVolumes().Get(ctx, volumePrefix+*o.Spec.Source.Volume, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", taken, problemf("rpc error: code = NotFound desc = disk %s not found", *o.Spec.Source.Volume)
	}
	if err != nil {
		return "", taken, err
	}
	undo, ok := s.snapshotter.disks.take(volume.Name)
	if !ok {
		return "", taken, problemf("rpc error: code = Internal desc = Failed to create snapshot: googleapi: "+
			"Error 403: Operation rate exceeded for resource 'projects/local/zones/local-a/disks/%s'. "+
			"Too frequent operations from the source resource., rateLimitExceeded", volume.Name)
	}
	if taken, err = s.copyVolume(ctx, name, volume); err != nil {
		undo()
	}
	return handle, taken, err
}

// copyVolume copies the data of a volume while no pod writes to it, as of one moment: that is what a disk would have.
func (s *Simulator) copyVolume(ctx context.Context, name string, volume *corev1.PersistentVolume) (podworker.Snapshot,
	error,
) {
	size := volume.Spec.Capacity[corev1.ResourceStorage]
	resume, err := s.pause(ctx, volume.Spec.ClaimRef)
	if err != nil {
		return podworker.Snapshot{}, err
	}
	defer resume()
	return s.runtime.TakeSnapshot(ctx, name, volume.Name, size.Value())
}

// pauseTime bounds the wait until processes have stopped.
const pauseTime = 10 * time.Second

// pause stops what may write to the volume of a claim: the processes of pods that use it.
func (s *Simulator) pause(ctx context.Context, claim *corev1.ObjectReference) (resume func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, pauseTime)
	defer cancel()
	var resumes []func()
	resume = func() {
		for _, f := range slices.Backward(resumes) {
			f()
		}
	}
	for _, pod := range s.watched.pods.List(claim.Namespace) {
		uses := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name
		})
		if !uses {
			continue
		}
		var goOn func()
		if pod.Spec.NodeName == realnode.Name {
			goOn, err = process.Pause(ctx, process.InControlGroup("/pod"+string(pod.UID)))
		} else {
			goOn, err = s.runtime.Pause(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
		if err != nil {
			resume()
			return nil, fmt.Errorf("pause pod %s: %w", pod.Name, err)
		}
		resumes = append(resumes, goOn)
	}
	return resume, nil
}

// releaseContent lets a deleted content go whose snapshot is deleted, too. Its policy says whether the data go with it.
// Data that the driver has not found by then is forgotten, as on GKE.
func (s *Simulator) releaseContent(ctx context.Context, o *kubeclient.VolumeSnapshotContent) error {
	unbound := o.Spec.Source.Snapshot != nil && o.Spec.Snapshot.UID == ""
	if !unbound && o.Annotations[annotationBeingDeleted] == "" {
		return nil // the deletion of the snapshot comes back here
	}
	if o.Spec.DeletionPolicy == policyDelete && o.Status != nil && o.Status.Handle != nil {
		if err := s.runtime.RemoveSnapshot(path.Base(*o.Status.Handle)); err != nil {
			return err
		}
	}
	if !slices.Contains(o.Finalizers, finalizerContent) {
		return nil
	}
	o = o.DeepCopy()
	o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == finalizerContent })
	_, err := s.client.VolumeSnapshotContents().Update(ctx, o, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// pruneSnapshots removes the copies of contents that were deleted while no simulator ran, and unfinished ones.
func (s *Simulator) pruneSnapshots(contents []*kubeclient.VolumeSnapshotContent) error {
	kept := map[string]bool{}
	for _, c := range contents {
		kept["snapshot-"+strings.TrimPrefix(c.Name, "snapcontent-")] = true
		if c.Spec.Source.Snapshot != nil {
			kept[path.Base(*c.Spec.Source.Snapshot)] = true
		}
		if c.Status != nil && c.Status.Handle != nil {
			kept[path.Base(*c.Status.Handle)] = true
		}
	}
	names, err := s.runtime.Snapshots()
	for _, name := range names {
		if !kept[name] {
			err = errors.Join(err, s.runtime.RemoveSnapshot(name))
		}
	}
	return err
}

// restore gives a claim's volume the data of the snapshot that the claim names, if any. It reports false, and tells the
// claim's owner why, while the snapshot cannot be used.
func (s *Simulator) restore(ctx context.Context, claim *corev1.PersistentVolumeClaim, volume string) (done bool,
	err error,
) {
	name := snapshotSource(claim)
	if name == "" {
		return true, nil
	}
	handle, err := s.usableSnapshot(ctx, claim, name)
	var why problem
	if errors.As(err, &why) {
		s.warn(ctx, claim, "ProvisioningFailed", fmt.Sprintf("failed to provision volume with StorageClass %q: error "+
			"getting handle for DataSource Type VolumeSnapshot by Name %s: %s", *claim.Spec.StorageClassName, name,
			why))
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, s.runtime.RestoreVolume(ctx, volume, path.Base(handle))
}

// usableSnapshot returns the handle of a snapshot that a claim can be made from.
func (s *Simulator) usableSnapshot(ctx context.Context, claim *corev1.PersistentVolumeClaim, name string) (
	handle string, err error,
) {
	o, err := s.client.VolumeSnapshots(claim.Namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", problemf("error getting snapshot %s from api server: %v", name, err)
	case err != nil:
		return "", err
	case o.DeletionTimestamp != nil:
		return "", problemf("snapshot %s is currently being deleted", name)
	case o.Status == nil || o.Status.Content == nil:
		return "", problemf("snapshot %s not bound", name)
	case !isReady(o):
		return "", problemf("snapshot %s is not Ready", name)
	}
	content, err := s.client.VolumeSnapshotContents().Get(ctx, *o.Status.Content, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case content.Spec.Snapshot.UID != o.UID || content.Status == nil || content.Status.Handle == nil:
		return "", problemf("snapshot %s is not bound to VolumeSnapshotContent %s", name, content.Name)
	case o.Status.RestoreSize != nil && size.Cmp(*o.Status.RestoreSize) < 0:
		return "", problemf("requested volume size %d is less than the size %d for the source snapshot %s",
			size.Value(), o.Status.RestoreSize.Value(), name)
	}
	_, known, err := s.runtime.Snapshot(path.Base(*content.Status.Handle))
	if err == nil && !known {
		err = problemf("rpc error: code = NotFound desc = snapshot %s not found", *content.Status.Handle)
	}
	return *content.Status.Handle, err
}

// warn records an event of a claim. It is only for readers: that it fails stops nothing.
func (s *Simulator) warn(ctx context.Context, claim *corev1.PersistentVolumeClaim, reason, message string) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(claim.UID) + reason + message)) // it never fails
	events, now := s.client.Events(claim.Namespace), metav1.Now()
	e := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: claim.Name + "." + strconv.FormatUint(h.Sum64(), 16)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name,
			UID: claim.UID,
		},
		Reason: reason, Message: message, Type: corev1.EventTypeWarning,
		Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: provisioner},
	}
	_, err := events.Create(ctx, e, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var seen *corev1.Event
		if seen, err = events.Get(ctx, e.Name, metav1.GetOptions{}); err == nil {
			seen.Count, seen.LastTimestamp = seen.Count+1, now
			_, err = events.Update(ctx, seen, metav1.UpdateOptions{})
		}
	}
	if err != nil {
		s.options.Log.WarnContext(ctx, "event not recorded", slog.Any("error", err))
	}
}
