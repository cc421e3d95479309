package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"agents.example/controlplane/emulators/kubeclient"
)

// Snapshots of volumes are what the external snapshotter and the driver of persistent disks do with VolumeSnapshots on
// GKE. This file has the former, which binds a VolumeSnapshot to a VolumeSnapshotContent. It reads objects from the API
// rather than from its watches: what a stale one would make it do cannot be undone.

const (
	finalizerSource  = "snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"
	finalizerBound   = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection"
	finalizerContent = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	finalizerClaim   = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

	annotationBeingDeleted         = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	annotationDefaultSnapshotClass = "snapshot.storage.kubernetes.io/is-default-class"

	policyDelete = "Delete"

	// snapshotRetry is how often the simulator tries again what an object in another state would allow.
	snapshotRetry = time.Second
	// servedPoll is how often it looks whether the API server knows snapshots yet: a real one learns of them late.
	servedPoll = 100 * time.Millisecond
)

// snapshotter has the queues of objects that are about snapshots.
type snapshotter struct {
	snapshots, contents, sources *queue
	disks                        disks
}

// problem is why a snapshot is not taken. Its object says so, and the attempt is repeated.
type problem string

// Error implements error.
func (p problem) Error() string { return string(p) }

func problemf(format string, args ...any) error { return problem(fmt.Sprintf(format, args...)) }

// runSnapshots handles the snapshots of volumes until ctx ends.
func (s *Simulator) runSnapshots(ctx context.Context, running *sync.WaitGroup) error {
	if !s.awaitSnapshots(ctx) {
		return nil
	}
	snapshots, err := kubeclient.NewInformer(s.client.VolumeSnapshots(metav1.NamespaceAll), "")
	if err != nil {
		return err
	}
	contents, err := kubeclient.NewInformer(s.client.VolumeSnapshotContents(), "")
	if err != nil {
		return err
	}
	q := &s.snapshotter
	snapshotsSeen, errSnapshots := snapshots.AddEventHandler(onChange(func(o *kubeclient.VolumeSnapshot) {
		q.snapshots.keys.Add(cache.MetaObjectToName(o).String())
		q.contents.keys.Add(contentName(o))
		if claim := o.Spec.Source.Claim; claim != nil {
			q.sources.keys.Add(o.Namespace + "/" + *claim)
		}
	}))
	contentsSeen, errContents := contents.AddEventHandler(onChange(func(o *kubeclient.VolumeSnapshotContent) {
		q.contents.keys.Add(o.Name)
		q.snapshots.keys.Add(o.Spec.Snapshot.Namespace + "/" + o.Spec.Snapshot.Name)
	}))
	_, errClaims := s.watched.claims.AddEventHandler(onChange(func(o *corev1.PersistentVolumeClaim) {
		if source := snapshotSource(o); source != "" {
			q.snapshots.keys.Add(o.Namespace + "/" + source)
		}
		q.sources.keys.Add(cache.MetaObjectToName(o).String())
	}))
	if err := errors.Join(errSnapshots, errContents, errClaims); err != nil {
		return fmt.Errorf("watch snapshots: %w", err)
	}
	running.Go(func() { snapshots.RunWithContext(ctx) })
	running.Go(func() { contents.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), snapshotsSeen.HasSynced, contentsSeen.HasSynced) {
		return nil // ctx ended
	}
	if err := s.pruneSnapshots(contents.List(metav1.NamespaceAll)); err != nil {
		return err
	}
	for _, queue := range []*queue{q.snapshots, q.contents, q.sources} {
		queue.run(ctx, running, 8)
	}
	<-ctx.Done()
	return nil
}

// awaitSnapshots waits until the API server knows snapshots, and reports false if ctx ends before.
func (s *Simulator) awaitSnapshots(ctx context.Context) bool {
	tick := time.NewTicker(servedPoll)
	defer tick.Stop()
	for {
		if _, err := s.client.VolumeSnapshotContents().List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// onChange calls take with an object that was added, changed or deleted.
func onChange[T any](take func(T)) cache.ResourceEventHandler {
	handle := func(object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		if o, ok := object.(T); ok {
			take(o)
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: handle, UpdateFunc: func(_, object any) { handle(object) }, DeleteFunc: handle,
	}
}

// contentName is the name of the content that a snapshot has, or will have.
func contentName(o *kubeclient.VolumeSnapshot) string {
	if name := o.Spec.Source.Content; name != nil {
		return *name
	}
	return "snapcontent-" + string(o.UID)
}

// snapshotSource returns the name of the snapshot that a claim is made from; empty for none.
func snapshotSource(claim *corev1.PersistentVolumeClaim) string {
	source := claim.Spec.DataSource
	if source == nil || source.Kind != "VolumeSnapshot" || source.APIGroup == nil ||
		*source.APIGroup != kubeclient.SnapshotVersion.Group {
		return ""
	}
	return source.Name
}

func isReady(o *kubeclient.VolumeSnapshot) bool {
	return o.Status != nil && o.Status.Ready != nil && *o.Status.Ready
}

// syncSnapshot binds a snapshot to its content, and shows in its status what the content has.
func (s *Simulator) syncSnapshot(ctx context.Context, key string) error {
	namespace, name, err := cache.SplitMetaNamespaceKey(key)
	if err != nil {
		return err
	}
	snapshot, err := s.client.VolumeSnapshots(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err != nil:
		return ignoreNotFound(err)
	case snapshot.DeletionTimestamp != nil:
		return s.releaseSnapshot(ctx, snapshot)
	}
	// Before it has a content, so that its deletion comes by here, which tells the content.
	if !slices.Contains(snapshot.Finalizers, finalizerSource) {
		if snapshot, err = s.setFinalizers(ctx, snapshot, []string{finalizerSource}); err != nil {
			return ignoreNotFound(err)
		}
	}
	content, err := s.contentOf(ctx, snapshot)
	var why problem
	if errors.As(err, &why) {
		s.snapshotter.snapshots.keys.AddAfter(key, snapshotRetry)
		return s.failSnapshot(ctx, snapshot, why)
	}
	if err != nil {
		return err
	}
	finalizers := []string{finalizerSource, finalizerBound}
	if snapshot, err = s.setFinalizers(ctx, snapshot, finalizers); err != nil {
		return ignoreNotFound(err)
	}
	return s.reportSnapshot(ctx, snapshot, content)
}

// setFinalizers makes finalizers the ones that a snapshot has of those that are about snapshots.
func (s *Simulator) setFinalizers(ctx context.Context, o *kubeclient.VolumeSnapshot, wanted []string) (
	*kubeclient.VolumeSnapshot, error,
) {
	changed := o.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool {
		return f == finalizerSource || f == finalizerBound
	})
	changed.Finalizers = append(changed.Finalizers, wanted...)
	if slices.Equal(changed.Finalizers, o.Finalizers) {
		return o, nil
	}
	return s.client.VolumeSnapshots(o.Namespace).Update(ctx, changed, metav1.UpdateOptions{})
}

// contentOf returns the content of a snapshot. It creates the one of a snapshot of a claim.
func (s *Simulator) contentOf(ctx context.Context, o *kubeclient.VolumeSnapshot) (*kubeclient.VolumeSnapshotContent,
	error,
) {
	content, err := s.client.VolumeSnapshotContents().Get(ctx, contentName(o), metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && (o.Spec.Source.Claim == nil || o.Status != nil && o.Status.Content != nil):
		return nil, problemf("VolumeSnapshotContent is missing")
	case apierrors.IsNotFound(err):
		return s.createContent(ctx, o)
	case err != nil || o.Spec.Source.Claim != nil:
		return content, err
	}
	ref := content.Spec.Snapshot
	switch {
	case ref.Namespace != o.Namespace || ref.Name != o.Name || ref.UID != "" && ref.UID != o.UID:
		return nil, problemf("VolumeSnapshotContent [%s] is bound to a different snapshot", content.Name)
	case content.Spec.Source.Snapshot == nil:
		return nil, problemf("VolumeSnapshotContent [%s] is dynamically provisioned while expecting a "+
			"pre-provisioned one", content.Name)
	case ref.UID == "":
		content = content.DeepCopy()
		content.Spec.Snapshot.UID = o.UID
		return s.client.VolumeSnapshotContents().Update(ctx, content, metav1.UpdateOptions{})
	}
	return content, nil
}

// createContent creates the content of a snapshot of a claim, which it keeps until the snapshot is ready.
func (s *Simulator) createContent(ctx context.Context, o *kubeclient.VolumeSnapshot) (*kubeclient.VolumeSnapshotContent,
	error,
) {
	class, err := s.snapshotClass(ctx, o)
	if err != nil {
		return nil, err
	}
	claim, err := s.client.PersistentVolumeClaims(o.Namespace).Get(ctx, *o.Spec.Source.Claim, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, problemf("failed to retrieve PVC %s from the lister: %v", *o.Spec.Source.Claim, err)
	case err != nil:
		return nil, err
	case claim.Status.Phase != corev1.ClaimBound:
		return nil, problemf("the PVC %s is not yet bound to a PV, will not attempt to take a snapshot", claim.Name)
	}
	volume, err := s.client.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	switch {
	case err != nil:
		return nil, err
	case class.Driver != snapshotDriver || volume.Annotations[annotationProvisionedBy] != provisioner:
		return nil, problemf("the driver %s of VolumeSnapshotClass %s did not make volume %s", class.Driver, class.Name,
			volume.Name)
	}
	if err := s.protectSource(ctx, claim); err != nil {
		return nil, err
	}
	content := &kubeclient.VolumeSnapshotContent{
		ObjectMeta: metav1.ObjectMeta{Name: contentName(o), Finalizers: []string{finalizerContent}},
		Spec: kubeclient.VolumeSnapshotContentSpec{
			Snapshot: corev1.ObjectReference{
				APIVersion: kubeclient.SnapshotVersion.String(), Kind: "VolumeSnapshot", Namespace: o.Namespace,
				Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
			},
			DeletionPolicy: class.DeletionPolicy, Driver: class.Driver, Class: &class.Name,
			Source: kubeclient.VolumeSnapshotContentSource{Volume: new(handleOf(volume))},
			Mode:   (*string)(claim.Spec.VolumeMode),
		},
	}
	created, err := s.client.VolumeSnapshotContents().Create(ctx, content, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return s.client.VolumeSnapshotContents().Get(ctx, content.Name, metav1.GetOptions{})
	}
	return created, err
}

// snapshotClass returns the class of a snapshot, or the default one.
func (s *Simulator) snapshotClass(ctx context.Context, o *kubeclient.VolumeSnapshot) (*kubeclient.VolumeSnapshotClass,
	error,
) {
	if o.Spec.Class != nil {
		class, err := s.client.VolumeSnapshotClasses().Get(ctx, *o.Spec.Class, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, problemf("failed to get snapshot class with error %v", err)
		}
		return class, err
	}
	classes, err := s.client.VolumeSnapshotClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range classes.Items {
		if classes.Items[i].Annotations[annotationDefaultSnapshotClass] == "true" {
			return &classes.Items[i], nil
		}
	}
	return nil, problemf("cannot find default snapshot class")
}

// protectSource keeps a claim while a snapshot of it is not ready.
func (s *Simulator) protectSource(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	switch {
	case slices.Contains(claim.Finalizers, finalizerClaim):
		return nil
	case claim.DeletionTimestamp != nil:
		return problemf("cannot add finalizer on claim [%s]: claim is being deleted", claim.Name)
	}
	claim = claim.DeepCopy()
	claim.Finalizers = append(claim.Finalizers, finalizerClaim)
	_, err := s.client.PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

// syncSource releases a claim when no snapshot needs it any more.
func (s *Simulator) syncSource(ctx context.Context, key string) error {
	claim, ok := s.watched.claims.Get(key)
	if !ok || !slices.Contains(claim.Finalizers, finalizerClaim) {
		return nil
	}
	snapshots, err := s.client.VolumeSnapshots(claim.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range snapshots.Items {
		o := &snapshots.Items[i]
		source := o.Spec.Source.Claim
		if source != nil && *source == claim.Name && !isReady(o) && o.DeletionTimestamp == nil {
			return nil // its next change comes back here
		}
	}
	claim = claim.DeepCopy()
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == finalizerClaim })
	_, err = s.client.PersistentVolumeClaims(claim.Namespace).Update(ctx, claim, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// ignoreNotFound drops the error for an object that is gone.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// failSnapshot shows why a snapshot is not taken.
func (s *Simulator) failSnapshot(ctx context.Context, o *kubeclient.VolumeSnapshot, why problem) error {
	status := kubeclient.VolumeSnapshotStatus{}
	if o.Status != nil {
		status = *o.DeepCopy().Status
	}
	status.Ready, status.Error = new(false), errorOf(string(why), status.Error)
	return s.writeSnapshotStatus(ctx, o, status)
}

// errorOf returns what an object says of an error. The same error keeps its time.
func errorOf(text string, before *kubeclient.VolumeSnapshotError) *kubeclient.VolumeSnapshotError {
	if before != nil && before.Message != nil && *before.Message == text {
		return before
	}
	return &kubeclient.VolumeSnapshotError{Time: new(metav1.Now()), Message: &text}
}

// reportSnapshot shows in a snapshot's status what its content has.
func (s *Simulator) reportSnapshot(ctx context.Context, o *kubeclient.VolumeSnapshot,
	content *kubeclient.VolumeSnapshotContent,
) error {
	status := kubeclient.VolumeSnapshotStatus{Content: &content.Name, Ready: new(false)}
	if c := content.Status; c != nil {
		status.Error = c.Error
		if c.Ready != nil {
			status.Ready = c.Ready
		}
		if c.CreationTime != nil {
			status.CreationTime = new(metav1.NewTime(time.Unix(0, *c.CreationTime)))
		}
		if c.RestoreSize != nil {
			status.RestoreSize = resource.NewQuantity(*c.RestoreSize, resource.BinarySI)
		}
	}
	return s.writeSnapshotStatus(ctx, o, status)
}

func (s *Simulator) writeSnapshotStatus(ctx context.Context, o *kubeclient.VolumeSnapshot,
	status kubeclient.VolumeSnapshotStatus,
) error {
	if status.CreationTime != nil {
		status.CreationTime = new(status.CreationTime.Rfc3339Copy()) // as the API keeps it
	}
	if o.Status != nil && equality.Semantic.DeepEqual(*o.Status, status) {
		return nil
	}
	changed := o.DeepCopy()
	changed.Status = &status
	_, err := s.client.VolumeSnapshots(o.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	return ignoreNotFound(err)
}

// releaseSnapshot lets a deleted snapshot go when no claim is being made from it, and its content when that is to go
// with it.
func (s *Simulator) releaseSnapshot(ctx context.Context, o *kubeclient.VolumeSnapshot) error {
	claims, err := s.client.PersistentVolumeClaims(o.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range claims.Items {
		c := &claims.Items[i]
		if snapshotSource(c) == o.Name && c.Status.Phase == corev1.ClaimPending &&
			slices.Contains(o.Finalizers, finalizerSource) {
			return nil // the claim's next change comes back here
		}
	}
	var finalizers []string
	content, err := s.boundContent(ctx, o)
	switch {
	case err != nil:
		return err
	case content != nil:
		if err := s.condemnContent(ctx, content); err != nil {
			return err
		}
		if content.Spec.DeletionPolicy == policyDelete {
			finalizers = []string{finalizerBound} // until the content is gone
		}
	}
	_, err = s.setFinalizers(ctx, o, finalizers)
	return ignoreNotFound(err)
}

// boundContent returns the content of a deleted snapshot, or nil. Like the snapshot controller of GKE, it knows a
// content that it did not make only once the status of the snapshot names it.
func (s *Simulator) boundContent(ctx context.Context, o *kubeclient.VolumeSnapshot) (*kubeclient.VolumeSnapshotContent,
	error,
) {
	if o.Spec.Source.Claim == nil && (o.Status == nil || o.Status.Content == nil) {
		return nil, nil
	}
	content, err := s.client.VolumeSnapshotContents().Get(ctx, contentName(o), metav1.GetOptions{})
	if err != nil || content.Spec.Snapshot.UID != o.UID {
		return nil, ignoreNotFound(err)
	}
	return content, nil
}

// condemnContent allows the deletion of the content of a deleted snapshot, and deletes it if its policy says so.
func (s *Simulator) condemnContent(ctx context.Context, content *kubeclient.VolumeSnapshotContent) error {
	if content.Annotations[annotationBeingDeleted] == "" {
		content = content.DeepCopy()
		metav1.SetMetaDataAnnotation(&content.ObjectMeta, annotationBeingDeleted, "yes")
		var err error
		if content, err = s.client.VolumeSnapshotContents().Update(ctx, content, metav1.UpdateOptions{}); err != nil {
			return ignoreNotFound(err)
		}
	}
	if content.Spec.DeletionPolicy != policyDelete || content.DeletionTimestamp != nil {
		return nil
	}
	return ignoreNotFound(s.client.VolumeSnapshotContents().Delete(ctx, content.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &content.UID},
	}))
}
