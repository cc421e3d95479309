package gke

import (
	"context"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	group, _, _ := strings.Cut(snapshotVersion, "/")
	return &corev1.TypedLocalObjectReference{APIGroup: &group, Kind: kindSnapshot, Name: b.sourceName()}
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
	content := contentOf(b.agent.Namespace(), name)
	meta := b.named(content)
	meta.Namespace = ""
	meta.Labels[labelSnapshot], meta.Labels[labelDatabase] = name, b.settings.Database
	return []object{
		&volumeSnapshot{
			TypeMeta: typed(snapshotVersion, kindSnapshot), ObjectMeta: b.named(name),
			Spec: volumeSnapshotSpec{Source: volumeSnapshotSource{Content: content}},
		},
		&volumeSnapshotContent{
			TypeMeta: typed(snapshotVersion, kindContent), ObjectMeta: meta,
			Spec: volumeSnapshotContentSpec{
				DeletionPolicy: retain, Driver: snapshotDriver,
				Source: snapshotContentSource{Handle: b.agent.Volume.Source.Handle},
				Snapshot: snapshotReference{
					APIVersion: snapshotVersion, Kind: kindSnapshot, Namespace: b.agent.Namespace(), Name: name,
				},
			},
		},
	}
}

// contentOf is the name of the content that a VolumeSnapshot of another agent's snapshot is bound to.
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
		return c.requireSnapshot(ctx, snapshotTarget(kindSnapshot, b.agent.Namespace(), b.sourceName()))
	}
}

// requireSnapshot checks that a snapshot exists from which a volume is about to be made.
func (c *client) requireSnapshot(ctx context.Context, t target) error {
	there, err := c.getMetadata(ctx, t)
	if err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	if err == nil && there.DeletionTimestamp == nil {
		return nil
	}
	return &provisioning.Permanent{
		Code: codeSnapshotGone, Cause: err,
		Message: "The snapshot that the agent's volume is made from no longer exists on its cluster. Restore " +
			"another snapshot.",
	}
}

// skew is more than the clocks of API servers and of this program differ.
const skew = time.Minute

// pruneSnapshots deletes the VolumeSnapshots of an agent that it no longer needs: those of other agents' snapshots once
// its volume is made, and those that its record does not have, because a slow worker asked for them when the record had
// removed them.
func (c *client) pruneSnapshots(ctx context.Context, a agent.Agent) error {
	t := snapshotTarget(kindSnapshot, a.Namespace(), "")
	var leftover []metav1.PartialObjectMetadata
	err := c.listMetadata(ctx, t, ours, func() { leftover = nil }, func(o *metav1.PartialObjectMetadata) {
		if o.DeletionTimestamp == nil && (isSource(o.Name) || isForgotten(o, a)) {
			leftover = append(leftover, *o)
		}
	})
	if err != nil {
		return explain(err, t)
	}
	for i := range leftover {
		if err := c.pruneSnapshot(ctx, a, &leftover[i]); err != nil {
			return err
		}
	}
	return nil
}

func isSource(name string) bool { return strings.HasPrefix(name, sourcePrefix) }

// isForgotten reports whether the agent's record had a snapshot no longer when this version of it was written. A record
// has a snapshot before a cluster does. So one that is older than the record's last change and not in it was removed.
func isForgotten(o *metav1.PartialObjectMetadata, a agent.Agent) bool {
	if !strings.HasPrefix(o.Name, snapshotPrefix) || !o.CreationTimestamp.Before(&metav1.Time{Time: a.UpdatedAt.Add(-skew)}) {
		return false
	}
	for _, s := range a.Snapshots {
		if name, err := snapshotName(a, s.ID); err == nil && name == o.Name {
			return false
		}
	}
	return true
}

// pruneSnapshot deletes a VolumeSnapshot, and the content if that outlives it. The content is marked first: if the
// worker dies in between, the next one finds the VolumeSnapshot.
func (c *client) pruneSnapshot(ctx context.Context, a agent.Agent, o *metav1.PartialObjectMetadata) error {
	if isSource(o.Name) {
		made, err := c.volumeMade(ctx, a)
		if err != nil || !made && o.Name == (blueprint{agent: a}).sourceName() {
			return err
		}
		if err := c.deleteContent(ctx, contentOf(a.Namespace(), o.Name)); err != nil {
			return err
		}
	}
	t := snapshotTarget(kindSnapshot, a.Namespace(), o.Name)
	if err := c.delete(ctx, t, o.UID); err != nil && !apierrors.IsNotFound(err) {
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

// pruneVolumes deletes the claims of former volumes that the record does not have any more, because a slow worker made
// them again. Numbers only grow, so a record that is not the newest one knows which are former.
func (c *client) pruneVolumes(ctx context.Context, a agent.Agent) error {
	t := core("PersistentVolumeClaim", a.Namespace(), "")
	var leftover []string
	err := c.listMetadata(ctx, t, ours, func() { leftover = nil }, func(o *metav1.PartialObjectMetadata) {
		if o.DeletionTimestamp == nil && isFormerVolume(o.Name, a) {
			leftover = append(leftover, o.Name)
		}
	})
	if err != nil {
		return explain(err, t)
	}
	for _, name := range leftover {
		if _, err := c.deleteClaim(ctx, core("PersistentVolumeClaim", a.Namespace(), name)); err != nil {
			return err
		}
	}
	return nil
}

// isFormerVolume reports whether a claim is of a volume that the agent's record has no more.
func isFormerVolume(name string, a agent.Agent) bool {
	number, ok := claimNumber(name)
	if !ok || number >= a.Volume.Number {
		return false
	}
	for _, v := range a.FormerVolumes {
		if v.Number == number {
			return false
		}
	}
	return true
}
