package gke

import (
	"context"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// sourcePrefix begins the names of the VolumeSnapshots that stand for a snapshot of another agent.
const sourcePrefix = "source-"

// sourceName is the name of the VolumeSnapshot that a volume is made from. VolumeSnapshots of other namespaces cannot
// be used, so a snapshot of another agent gets one of this agent's own.
func (b blueprint) sourceName() string {
	v := b.agent.Volume
	if v.Foreign(b.agent.ID) {
		return sourcePrefix + strconv.FormatInt(v.Number, 10)
	}
	_, suffix, _ := agent.SnapshotOwner(v.Source.SnapshotID)
	return snapshotPrefix + suffix
}

// dataSource is what the agent's volume is made from; nil for an empty one. It can't change, so it stays as it is when
// the volume is made and the snapshot is gone.
func (b blueprint) dataSource() *corev1.TypedLocalObjectReference {
	if b.agent.Volume.Source.SnapshotID == "" {
		return nil
	}
	return snapshotSource(b.sourceName())
}

// snapshotSource is the source of a claim whose volume is made from a VolumeSnapshot.
func snapshotSource(name string) *corev1.TypedLocalObjectReference {
	group, _, _ := strings.Cut(snapshotVersion, "/")
	return &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: kindSnapshot, Name: name}
}

// volumeBytes is the size of the agent's volume. No volume is smaller than the snapshot that it is made from.
func (b blueprint) volumeBytes() int64 {
	bytes := b.plan.StorageBytes()
	for _, s := range b.agent.Snapshots {
		if s.ID == b.agent.Volume.Source.SnapshotID {
			bytes = max(bytes, s.SizeBytes)
		}
	}
	return bytes
}

// foreignSource makes the storage's snapshot of another agent one of this agent's namespace, while its volume is being
// made. Deleting both does not delete the snapshot. The VolumeSnapshot comes first: it cannot be made without the
// namespace, so a late worker leaves no content to a namespace that is gone.
func (b blueprint) foreignSource() []object {
	if !b.cloning {
		return nil
	}
	name := b.sourceName()
	return []object{
		&volumeSnapshot{
			TypeMeta: typed(snapshotVersion, kindSnapshot), ObjectMeta: b.named(name),
			Spec: volumeSnapshotSpec{Source: volumeSnapshotSource{Content: contentOf(b.agent.Namespace(), name)}},
		},
		b.contentFor(name, b.agent.Volume.Source.Handle),
	}
}

// contentFor is the content of a VolumeSnapshot that stands for a snapshot which the storage has. It goes without the
// data.
func (b blueprint) contentFor(name, handle string) *volumeSnapshotContent {
	meta := b.named(contentOf(b.agent.Namespace(), name))
	meta.Namespace = ""
	meta.Labels[labelSnapshot], meta.Labels[labelDatabase] = name, b.settings.Database
	return &volumeSnapshotContent{
		TypeMeta: typed(snapshotVersion, kindContent), ObjectMeta: meta,
		Spec: volumeSnapshotContentSpec{
			DeletionPolicy: retain, Driver: snapshotDriver, Source: snapshotContentSource{Handle: handle},
			Snapshot: snapshotReference{
				APIVersion: snapshotVersion, Kind: kindSnapshot, Namespace: b.agent.Namespace(), Name: name,
			},
		},
	}
}

// contentOf is the name of the content of a VolumeSnapshot that stands for a snapshot which the storage has.
func contentOf(namespace, source string) string { return namespace + "-" + source }

// prepareSource looks whether the agent's volume is made, and what it is made from if it is not. Errors: Permanent for
// a snapshot of the agent's own that is gone, as another volume would be empty.
func (c *client) prepareSource(ctx context.Context, b *blueprint) error {
	v := b.agent.Volume
	if v.Source.SnapshotID == "" || b.agent.KeepsVolume() {
		return nil
	}
	t := core("PersistentVolumeClaim", b.agent.Namespace(), claimName(v.Number))
	var claim corev1.PersistentVolumeClaim
	err := c.get(ctx, t, &claim)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return explain(err, t)
	case claim.Status.Phase == corev1.ClaimBound:
		return nil
	case v.Foreign(b.agent.ID):
		b.cloning = true
		return nil
	case err == nil:
		return nil
	default:
		return c.requireSnapshot(ctx, snapshotTarget(kindSnapshot, b.agent.Namespace(), b.sourceName()),
			"The snapshot that the agent's volume is made from no longer exists on its cluster. Restore another "+
				"snapshot.")
	}
}

// requireSnapshot checks that a snapshot exists from which a volume is about to be made. Errors: Permanent, which says
// what its client can do.
func (c *client) requireSnapshot(ctx context.Context, t target, advice string) error {
	there, err := c.getMetadata(ctx, t)
	if err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	if err == nil && there.DeletionTimestamp == nil {
		return nil
	}
	return &provisioning.Permanent{Code: codeSnapshotGone, Cause: err, Message: advice}
}

// judgeSource explains the pod of a clone whose volume cannot be made, because the storage no longer has the snapshot.
// The events of the pod only say that the volume is not there.
func (c *client) judgeSource(ctx context.Context, a agent.Agent, f *provisioning.PodFailure) error {
	if !a.Volume.Unmade || !a.Volume.Foreign(a.ID) {
		return nil
	}
	t := snapshotTarget(kindSnapshot, a.Namespace(), blueprint{agent: a}.sourceName())
	var source volumeSnapshot
	if err := c.get(ctx, t, &source); err != nil {
		if apierrors.IsNotFound(err) {
			return nil // the volume is made
		}
		return explain(err, t)
	}
	if said := source.Status.LastError; !source.Status.Ready && said != nil &&
		strings.Contains(said.Message, snapshotUnknown) {
		f.Code, f.Permanent = codeSnapshotGone, true
		f.Message = "The snapshot that the volume is made from no longer exists. Make an agent from another one."
	}
	return nil
}

// snapshotUnknown is what the snapshot controller says of a content whose snapshot the storage does not have.
const snapshotUnknown = "can not find snapshot"

// pruneSource deletes what stands for the snapshot of another agent once the volume is made from it. The content is
// marked first: if the worker dies in between, the next one finds the VolumeSnapshot. A content goes when its
// VolumeSnapshot has gone.
func (c *client) pruneSource(ctx context.Context, a agent.Agent) error {
	if !a.Volume.Foreign(a.ID) {
		return nil
	}
	t := snapshotTarget(kindSnapshot, a.Namespace(), blueprint{agent: a}.sourceName())
	source, err := c.getMetadata(ctx, t)
	if apierrors.IsNotFound(err) || err == nil && source.DeletionTimestamp != nil {
		return nil
	}
	if err != nil {
		return explain(err, t)
	}
	if made, err := c.volumeMade(ctx, a); err != nil || !made {
		return err
	}
	if err := c.deleteContent(ctx, contentOf(t.namespace, t.name)); err != nil {
		return err
	}
	if err := c.delete(ctx, t, source.UID); err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	return nil
}

// volumeMade reports whether the agent's present volume exists.
func (c *client) volumeMade(ctx context.Context, a agent.Agent) (bool, error) {
	t := core("PersistentVolumeClaim", a.Namespace(), claimName(a.Volume.Number))
	var claim corev1.PersistentVolumeClaim
	if err := c.get(ctx, t, &claim); err != nil {
		return false, explain(err, t)
	}
	return claim.Status.Phase == corev1.ClaimBound, nil
}

// deleteContent deletes a content that outlives its VolumeSnapshot.
func (c *client) deleteContent(ctx context.Context, name string) error {
	t := snapshotTarget(kindContent, "", name)
	content, err := c.getMetadata(ctx, t)
	if err == nil && content.DeletionTimestamp == nil {
		err = c.delete(ctx, t, content.UID)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain(err, t)
}
