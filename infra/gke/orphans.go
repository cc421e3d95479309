package gke

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// Namespaces implements provisioning.NamespaceLister. A cell that can't be asked, or can't be asked to the end, is an
// error.
func (c *Clusters) Namespaces(ctx context.Context) ([]provisioning.Placement, error) {
	var all []provisioning.Placement
	for _, name := range slices.Sorted(maps.Keys(c.cells)) {
		client, err := c.client(name)
		if err != nil {
			return nil, err
		}
		found, err := client.placements(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func (c *client) placements(ctx context.Context) ([]provisioning.Placement, error) {
	var found []provisioning.Placement
	t := core("Namespace", "", "")
	labelled := metav1.ListOptions{LabelSelector: labelManagedBy + "=" + fieldManager + "," + labelAgent}
	err := c.list(ctx, t, labelled, func() { found = nil }, func(o *unstructured.Unstructured) {
		id := o.GetLabels()[labelAgent]
		if o.GetName() != agent.Namespace(id) {
			return // a foreign namespace with labels copied from one of ours
		}
		found = append(found, provisioning.Placement{
			Cell: c.cell, AgentID: id, UID: string(o.GetUID()), CreatedAt: o.GetCreationTimestamp().Time,
		})
	})
	if err != nil {
		return nil, explain(err, t)
	}
	return found, nil
}

// DeleteNamespace implements provisioning.NamespaceLister.
func (c *Clusters) DeleteNamespace(ctx context.Context, p provisioning.Placement) error {
	client, err := c.client(p.Cell)
	if err != nil {
		return err
	}
	return client.deleteNamespace(ctx, p.AgentID, types.UID(p.UID))
}
