package gke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// Delete implements provisioning.Cluster: everything of an agent is in its namespace and goes with it, but for the
// contents of snapshots. Those that own their data go when the storage has deleted it. The others never go by
// themselves: they stand for snapshots of other agents, or were retained when their VolumeSnapshots were deleted.
func (c *Clusters) Delete(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	gone, err := client.deleteNamespace(ctx, a.ID, "", func() error { return client.ownContents(ctx, a) })
	if err != nil || !gone {
		return err
	}
	contents, err := client.contents(ctx, a, "")
	for i := range contents {
		err = errors.Join(err, client.deleteLeftContent(ctx, &contents[i]))
	}
	return err
}

// deleteLeftContent deletes a content whose VolumeSnapshot is gone.
func (c *client) deleteLeftContent(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	if err := c.markLeftContent(ctx, o); err != nil {
		return err
	}
	return c.deleteContent(ctx, o.Name)
}

// markLeftContent says that the VolumeSnapshot of a content is gone. The driver keeps a content that is bound until the
// snapshot controller has marked it. The controller does not mark a content that a worker made if the VolumeSnapshot
// was deleted before its status named the content.
func (c *client) markLeftContent(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	if !isSourceContent(o) || o.Annotations[annotationSnapshotDeleted] != "" {
		return nil
	}
	t := snapshotTarget(kindContent, "", o.Name)
	fields := map[string]any{"metadata": map[string]any{
		"annotations": map[string]any{annotationSnapshotDeleted: "yes"},
	}}
	if err := c.mergeAs(ctx, fieldManager, t, fields); err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	return nil
}

// isSourceContent reports whether a content stands for a snapshot that the cell did not take.
func isSourceContent(o metav1.Object) bool {
	labels := o.GetLabels()
	return o.GetName() == contentOf(agent.Namespace(labels[labelAgent]), labels[labelSnapshot])
}

// ownContents labels the contents of all VolumeSnapshots of an agent, so that they are found once the VolumeSnapshots
// are gone.
func (c *client) ownContents(ctx context.Context, a agent.Agent) error {
	var all []volumeSnapshot
	t := snapshotTarget(kindSnapshot, a.Namespace(), "")
	err := list(ctx, c, selection{target: t}, func() { all = nil }, func(page *volumeSnapshotList) {
		all = append(all, page.Items...)
	})
	if err != nil || len(all) == 0 {
		return explain(err, t)
	}
	labeled, err := c.contents(ctx, a, "")
	if err != nil {
		return err
	}
	for i := range all {
		name := contentName(&all[i])
		if slices.ContainsFunc(labeled, func(o metav1.PartialObjectMetadata) bool { return o.Name == name }) {
			continue
		}
		if err := c.ownContent(ctx, a, &all[i]); err != nil {
			return err
		}
	}
	return nil
}

// deleteNamespace begins the deletion of the namespace of the agent with the id, after before, and reports whether it
// is gone; when uid isn't "", only of the namespace that has it. A namespace that isn't ours by its labels is left
// alone, whatever its name.
func (c *client) deleteNamespace(ctx context.Context, agentID string, uid types.UID, before func() error) (
	gone bool, err error,
) {
	t := core("Namespace", "", agent.Namespace(agentID))
	namespace, err := c.getMetadata(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, explain(err, t)
	case uid != "" && namespace.GetUID() != uid:
		return false, nil
	case !isOurs(namespace, agentID):
		return false, &provisioning.Permanent{
			Code: "namespace_not_owned",
			Message: fmt.Sprintf("The namespace %s lacks the agent's labels and was not deleted. "+
				"Contact support: the operator must label or delete it.", t.name),
		}
	case namespace.GetDeletionTimestamp() != nil:
		return false, nil
	}
	if err := before(); err != nil {
		return false, err
	}
	if err := c.delete(ctx, t, namespace.GetUID()); err != nil && !apierrors.IsNotFound(err) {
		return false, explain(err, t) // a conflict says that it was replaced in between: the next attempt looks again
	}
	return false, nil
}

func isOurs(namespace metav1.Object, agentID string) bool {
	labels := namespace.GetLabels()
	return labels[labelManagedBy] == fieldManager && labels[labelAgent] == agentID
}

// CheckGone implements provisioning.Cluster. A volume outlives its namespace by moments, or for as long as its storage
// cannot be reached. By then the claim that names the volume is gone, and volumes cannot be selected by the namespace
// of their claim. Therefore CheckGone lists the volumes of the cell once the namespace is gone.
//
// The provisioner's finalizer keeps a volume until the disk is deleted. A volume whose class retains its disk is never
// deleted, so it is never reported gone. The same holds for the contents of snapshots, which have the agent's label.
func (c *Clusters) CheckGone(ctx context.Context, a agent.Agent) (provisioning.Gone, error) {
	client, err := c.client(a.Cell)
	if err != nil {
		return provisioning.Gone{}, err
	}
	t := core("Namespace", "", a.Namespace())
	var namespace corev1.Namespace
	err = client.get(ctx, t, &namespace)
	switch {
	case err == nil:
		slog.DebugContext(ctx, "the agent's objects are being deleted", "agent_id", a.ID, "cell", a.Cell,
			"left", t.String()+remains(&namespace))
		return provisioning.Gone{}, nil
	case !apierrors.IsNotFound(err):
		return provisioning.Gone{}, explain(err, t)
	}
	volumes, err := client.volumesOf(ctx, a.Namespace())
	if err != nil {
		return provisioning.Gone{Namespace: true}, err
	}
	contents, err := client.contents(ctx, a, "")
	return provisioning.Gone{
		Namespace: true, Volume: len(volumes) == 0, Snapshots: err == nil && len(contents) == 0,
	}, err
}

// volumesOf lists the volumes that were claimed in a namespace.
func (c *client) volumesOf(ctx context.Context, namespace string) ([]string, error) {
	var names []string
	t := core("PersistentVolume", "", "")
	begin := func() { names = nil }
	err := list(ctx, c, selection{target: t}, begin, func(page *corev1.PersistentVolumeList) {
		for i := range page.Items {
			if claim := page.Items[i].Spec.ClaimRef; claim != nil && claim.Namespace == namespace {
				names = append(names, page.Items[i].Name)
			}
		}
	})
	return names, explain(err, t)
}

// remains is what a namespace's conditions say is left in it.
func remains(namespace *corev1.Namespace) string {
	var b strings.Builder
	for _, c := range namespace.Status.Conditions {
		if c.Status == corev1.ConditionTrue {
			fmt.Fprintf(&b, "; %s: %s", c.Type, c.Message)
		}
	}
	return b.String()
}
