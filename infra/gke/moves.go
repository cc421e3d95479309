package gke

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"agents.example/controlplane/shared/agent"
)

// labelRetained is on contents whose data outlives them. They do not go with their VolumeSnapshot.
const labelRetained = "agents.example/retained"

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
	labels := blueprint{agent: a}.labels()
	labels[labelSnapshot] = name
	fields := map[string]any{
		"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"deletionPolicy": remove},
	}
	if labels[labelRetained] = ""; retains {
		labels[labelRetained], fields["spec"] = "true", map[string]any{"deletionPolicy": retain}
	}
	for _, content := range contents {
		t := snapshotTarget(kindContent, "", content)
		if err := client.mergeAs(ctx, fieldManager, t, fields); err != nil && !apierrors.IsNotFound(err) {
			return explain(err, t)
		}
	}
	return nil
}
