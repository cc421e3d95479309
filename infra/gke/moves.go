package gke

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// remove is the deletion policy that deletes the data of a snapshot with its content.
const remove = "Delete"

// AdoptSnapshot implements provisioning.Volumes: a VolumeSnapshot of the same name as in the other cell, with a content
// that names the storage's snapshot. The VolumeSnapshot comes first: it cannot be made without the namespace, so a late
// worker leaves no content to a namespace that is gone.
func (c *Clusters) AdoptSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot) error {
	client, name, err := c.snapshotOf(a, s)
	if err != nil {
		return err
	}
	b := blueprint{agent: a, settings: c.settings}
	content := contentOf(a.Namespace(), name)
	there, t := &volumeSnapshot{}, snapshotTarget(kindSnapshot, a.Namespace(), name)
	switch err := client.get(ctx, t, there); {
	case apierrors.IsNotFound(err):
		err := client.create(ctx, t, &volumeSnapshot{
			TypeMeta: typed(snapshotVersion, kindSnapshot), ObjectMeta: b.named(name),
			Spec: volumeSnapshotSpec{Source: volumeSnapshotSource{Content: content}},
		})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return explain(err, t)
		}
	case err != nil:
		return explain(err, t)
	case there.Spec.Source.Content != content:
		return nil // this cell took it
	}
	made := b.contentFor(name, s.Handle)
	t = targetOf(made)
	if err := client.create(ctx, t, made); err != nil && !apierrors.IsAlreadyExists(err) {
		return explain(err, t)
	}
	return nil
}

// RetainSnapshot implements provisioning.Volumes by the deletion policy of the content.
func (c *Clusters) RetainSnapshot(ctx context.Context, a agent.Agent, s agent.Snapshot, retains bool) error {
	client, name, err := c.snapshotOf(a, s)
	if err != nil {
		return err
	}
	var contents []string
	there, t := &volumeSnapshot{}, snapshotTarget(kindSnapshot, a.Namespace(), name)
	switch err := client.get(ctx, t, there); {
	case err == nil:
		if !retains && !found(there) {
			return client.checkUnbound(ctx, there)
		}
		contents = []string{contentName(there)}
	case !apierrors.IsNotFound(err):
		return explain(err, t)
	default: // its content may be left
		left, err := client.contents(ctx, a, name)
		if err != nil {
			return err
		}
		for i := range left {
			contents = append(contents, left[i].Name)
		}
	}
	labels, policy := blueprint{agent: a}.labels(), remove
	labels[labelSnapshot] = name
	if retains {
		policy = retain
	}
	fields := map[string]any{
		"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"deletionPolicy": policy},
	}
	for _, content := range contents {
		t := snapshotTarget(kindContent, "", content)
		if err := client.mergeAs(ctx, fieldManager, t, fields); err != nil && !apierrors.IsNotFound(err) {
			return explain(err, t)
		}
	}
	return nil
}

// found reports whether the data of a snapshot can go with its VolumeSnapshot. An adopted content stays when the
// VolumeSnapshot is deleted before its status names the content, and the data stays when the content is deleted before
// the driver has found the data, which sets the time of the cut. If the storage does not have the data, there is an
// error.
func found(s *volumeSnapshot) bool {
	return s.Spec.Source.Content == "" || s.Status.Content != "" && (s.Status.CutAt != nil || s.Status.LastError != nil)
}

// checkUnbound returns ErrSnapshotUnbound, unless the content of an adopted VolumeSnapshot does not exist.
func (c *client) checkUnbound(ctx context.Context, s *volumeSnapshot) error {
	t := snapshotTarget(kindContent, "", s.Spec.Source.Content)
	_, err := c.getMetadata(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return explain(err, t)
	default:
		return provisioning.ErrSnapshotUnbound
	}
}
