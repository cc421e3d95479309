package gke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// labelDatabase is the identity of the database that has the agent's record; see Settings.Database.
	labelDatabase = "agents.example/database"
	// annotationOrphaned is the time since when the agent of a namespace has had no record, in RFC 3339.
	annotationOrphaned = "agents.example/orphaned-since"
	// orphanManager owns what MarkNamespace writes, so that applying an agent's objects leaves the mark and takes back
	// the number of replicas.
	orphanManager = "agent-control-plane-orphans"
)

func checkDatabase(identity string) error {
	if identity == "" || len(validation.IsValidLabelValue(identity)) > 0 {
		return fmt.Errorf("the identity %q of the database is not the value of a label", identity)
	}
	return nil
}

// Namespaces implements provisioning.NamespaceLister. A cell that can't be asked, or can't be asked to the end, is an
// error.
func (c *Clusters) Namespaces(ctx context.Context) ([]provisioning.Placement, error) {
	var all []provisioning.Placement
	for _, name := range slices.Sorted(maps.Keys(c.cells)) {
		client, err := c.client(name)
		if err != nil {
			return nil, err
		}
		found, err := client.placements(ctx, c.settings.Database)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *client) placements(ctx context.Context, database string) ([]provisioning.Placement, error) {
	var found []provisioning.Placement
	t := core("Namespace", "", "")
	labeled := ours + "," + labelDatabase + "=" + database
	err := c.listMetadata(ctx, t, labeled, func() { found = nil }, func(o *metav1.PartialObjectMetadata) {
		id := o.Labels[labelAgent]
		if o.Name != agent.Namespace(id) || o.DeletionTimestamp != nil {
			return // a foreign namespace with labels copied from one of ours, or one that is on its way out
		}
		found = append(found, provisioning.Placement{
			Cell: c.cell, AgentID: id, UID: string(o.UID), CreatedAt: o.CreationTimestamp.Time,
			OrphanedSince: orphanedSince(o),
		})
	})
	if err != nil {
		return nil, explain(err, t)
	}
	return found, nil
}

// orphanedSince reads the mark. A mark that can't be read counts as none, so that it is written again.
func orphanedSince(o metav1.Object) time.Time {
	since, err := time.Parse(time.RFC3339, o.GetAnnotations()[annotationOrphaned])
	if err != nil {
		return time.Time{}
	}
	return since
}

// MarkNamespace implements provisioning.NamespaceLister. It marks first: a later call repeats both steps.
func (c *Clusters) MarkNamespace(ctx context.Context, p provisioning.Placement, orphanedSince time.Time) error {
	client, err := c.client(p.Cell)
	if err != nil {
		return err
	}
	namespace := core("Namespace", "", agent.Namespace(p.AgentID))
	listed, err := client.getMetadata(ctx, namespace)
	if apierrors.IsNotFound(err) || err == nil && string(listed.UID) != p.UID {
		return nil // it is gone or was replaced
	}
	if err != nil {
		return explain(err, namespace)
	}
	var mark any // null removes the annotation
	if !orphanedSince.IsZero() {
		mark = orphanedSince.UTC().Format(time.RFC3339)
	}
	err = client.merge(ctx, namespace, map[string]any{"metadata": map[string]any{
		"resourceVersion": listed.ResourceVersion, "annotations": map[string]any{annotationOrphaned: mark},
	}})
	if err != nil || orphanedSince.IsZero() {
		return explain(err, namespace)
	}
	workload := target{gvk: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), namespace: namespace.name, name: agentName}
	// The collector may scale workloads and not change what they run.
	err = client.merge(ctx, workload, map[string]any{"spec": map[string]any{"replicas": 0}}, "scale")
	if apierrors.IsNotFound(err) {
		return nil
	}
	return explain(err, workload)
}

// merge changes single fields of an object that exists, or of its subresource.
func (c *client) merge(ctx context.Context, t target, fields map[string]any, subresource ...string) error {
	return c.mergeAs(ctx, orphanManager, t, fields, subresource...)
}

// mergeAs is merge by another manager of fields.
func (c *client) mergeAs(ctx context.Context, manager string, t target, fields map[string]any,
	subresource ...string,
) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(fields)
	if err != nil {
		return errors.Join(errors.New("encode a merge patch"), err)
	}
	_, err = c.objects.patch(ctx, t, patch{kind: types.MergePatchType, body: body, subresource: subresource},
		metav1.PatchOptions{FieldManager: manager})
	return err
}

// DeleteNamespace implements provisioning.NamespaceLister.
func (c *Clusters) DeleteNamespace(ctx context.Context, p provisioning.Placement) error {
	client, err := c.client(p.Cell)
	if err != nil {
		return err
	}
	_, err = client.deleteNamespace(ctx, p.AgentID, types.UID(p.UID), func() error { return nil })
	return err
}

// DeleteSources implements provisioning.NamespaceLister. A worker that was slow may have made such a content in the
// moment in which the namespace was deleted.
func (c *Clusters) DeleteSources(ctx context.Context) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(c.cells)) {
		client, err := c.client(name)
		if err == nil {
			err = client.deleteSources(ctx, c.settings.Database, time.Now().Add(-minSourceAge))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// minSourceAge is the age from which the content of a source is an orphan if its namespace does not exist.
const minSourceAge = time.Hour

// deleteSources deletes the contents of sources that were made before a time and whose namespaces do not exist, also
// those that were deleted without a mark before.
func (c *client) deleteSources(ctx context.Context, database string, before time.Time) error {
	t := snapshotTarget(kindContent, "", "")
	var old []metav1.PartialObjectMetadata
	labeled := ours + "," + labelDatabase + "=" + database
	err := c.listMetadata(ctx, t, labeled, func() { old = nil }, func(o *metav1.PartialObjectMetadata) {
		if isSourceContent(o) && o.CreationTimestamp.Time.Before(before) {
			old = append(old, *o)
		}
	})
	errs := []error{explain(err, t)}
	for i := range old {
		errs = append(errs, c.deleteOrphanedSource(ctx, &old[i]))
	}
	return errors.Join(errs...)
}

func (c *client) deleteOrphanedSource(ctx context.Context, o *metav1.PartialObjectMetadata) error {
	namespace := core("Namespace", "", agent.Namespace(o.Labels[labelAgent]))
	_, err := c.getMetadata(ctx, namespace)
	switch {
	case err == nil:
		return nil
	case !apierrors.IsNotFound(err):
		return explain(err, namespace)
	}
	if err := c.markLeftContent(ctx, o); err != nil {
		return err
	}
	t := snapshotTarget(kindContent, "", o.Name)
	if err := c.delete(ctx, t, o.UID); err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t)
	}
	return nil
}
