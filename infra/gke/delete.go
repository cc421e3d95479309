package gke

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// Delete implements provisioning.Cluster: everything of an agent is in its namespace, and goes with it.
func (c *Clusters) Delete(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	return client.deleteNamespace(ctx, a.ID, "")
}

// deleteNamespace begins the deletion of the namespace of the agent with the id; when uid isn't "", only of the
// namespace that has it. A namespace that isn't ours by its labels is left alone, whatever its name.
func (c *client) deleteNamespace(ctx context.Context, agentID string, uid types.UID) error {
	t := core("Namespace", "", agent.Namespace(agentID))
	namespace, err := c.get(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return explain(err, t)
	case uid != "" && namespace.GetUID() != uid:
		return nil
	case !isOurs(namespace, agentID):
		return &provisioning.Permanent{
			Code: "namespace_not_owned",
			Message: fmt.Sprintf("The namespace %s lacks the agent's labels and was not deleted. "+
				"Contact support: the operator must label or delete it.", t.name),
		}
	case namespace.GetDeletionTimestamp() != nil:
		return nil
	}
	if err := c.delete(ctx, t, namespace.GetUID()); err != nil && !apierrors.IsNotFound(err) {
		return explain(err, t) // a conflict says that it was replaced in between: the next attempt looks again
	}
	return nil
}

func isOurs(namespace *unstructured.Unstructured, agentID string) bool {
	labels := namespace.GetLabels()
	return labels[labelManagedBy] == fieldManager && labels[labelAgent] == agentID
}

// AwaitGone implements provisioning.Cluster. When ctx ends before, the error is Unavailable, says what is left, and
// wraps ctx's.
//
// A volume outlives its namespace by moments, or for as long as its storage can't be reached. Which volume it is stands
// in the claim, for as long as that is there: mostly it still is, because the deletion of a namespace takes seconds.
// Otherwise, as when an earlier wait was broken off, the volumes of the whole cell are listed once, after the claim is
// certainly gone: volumes can't be selected by the namespace of their claim.
func (c *Clusters) AwaitGone(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	volumes, err := client.boundVolume(ctx, a.Namespace())
	if err != nil {
		return err
	}
	if err := client.awaitGone(ctx, core("Namespace", "", a.Namespace())); err != nil {
		return err
	}
	if volumes == nil {
		if volumes, err = client.volumesOf(ctx, a.Namespace()); err != nil {
			return err
		}
	}
	for _, name := range volumes {
		if err := client.awaitGone(ctx, core("PersistentVolume", "", name)); err != nil {
			return err
		}
	}
	return nil
}

// boundVolume is the volume that the claim in a namespace is bound to; nil when that can't be told (any more).
func (c *client) boundVolume(ctx context.Context, namespace string) ([]string, error) {
	t := core("PersistentVolumeClaim", namespace, volumeName)
	claim, err := c.get(ctx, t)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(err, t)
	}
	name, _, _ := unstructured.NestedString(claim.Object, "spec", "volumeName")
	if name == "" {
		return nil, nil // it may be bound at any moment
	}
	return []string{name}, nil
}

// volumesOf lists the volumes that were claimed in a namespace.
func (c *client) volumesOf(ctx context.Context, namespace string) ([]string, error) {
	var names []string
	t := core("PersistentVolume", "", "")
	err := c.list(ctx, t, metav1.ListOptions{}, func() { names = nil }, func(o *unstructured.Unstructured) {
		if claimed, _, _ := unstructured.NestedString(o.Object, "spec", "claimRef", "namespace"); claimed == namespace {
			names = append(names, o.GetName())
		}
	})
	return names, explain(err, t)
}

// awaitGone watches until an object isn't there.
func (c *client) awaitGone(ctx context.Context, t target) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	left := t.String()
	for s := range c.follow(following, t) {
		switch {
		case s.err != nil:
			return explain(s.err, t)
		case s.object == nil:
			return nil
		}
		left = t.String() + remains(s.object)
	}
	return fault.New(fault.Unavailable, "deletion_pending",
		"The agent's objects are still being deleted. The deletion continues automatically.").
		WithCause(fmt.Errorf("still there: %s: %w", left, ctx.Err()))
}

// remains is what a namespace's conditions say is left in it.
func remains(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	var b strings.Builder
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["status"] == "True" {
			fmt.Fprintf(&b, "; %v: %v", c["type"], c["message"])
		}
	}
	return b.String()
}
