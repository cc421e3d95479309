package gke

import (
	"context"
	"errors"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
)

// Prune implements provisioning.Cluster. What it deletes does not depend on each other, so a failure of one does not
// keep the others.
func (c *Clusters) Prune(ctx context.Context, a agent.Agent) error {
	client, err := c.client(a.Cell)
	if err != nil {
		return err
	}
	return errors.Join(client.pruneEnvironments(ctx, a), client.pruneSource(ctx, a))
}

// pruneEnvironments finds the ConfigMaps of the namespace and deletes each with the Secret of the same name, because
// workers may not list Secrets.
//
// A deletion names the version of the object that was read. If another worker applied the object again in between, for
// a newer generation with the same content, the object stays.
func (c *client) pruneEnvironments(ctx context.Context, a agent.Agent) error {
	t := core("ConfigMap", a.Namespace(), "")
	var leftover []metav1.PartialObjectMetadata
	err := c.listMetadata(ctx, t, ours, func() { leftover = nil }, func(o *metav1.PartialObjectMetadata) {
		if isLeftover(o.Name, generationOf(o), a) {
			leftover = append(leftover, *o)
		}
	})
	if err != nil {
		return explain(err, t)
	}
	for i := range leftover {
		if err := c.pruneEnvironment(ctx, a, &leftover[i]); err != nil {
			return err
		}
	}
	return nil
}

// isLeftover reports whether a ConfigMap or Secret is an environment, or has files, that an earlier generation of the
// agent used.
func isLeftover(name string, generation int64, a agent.Agent) bool {
	named := name == environmentPrefix || strings.HasPrefix(name, environmentPrefix+"-") ||
		strings.HasPrefix(name, filesPrefix)
	config := configHash(a)
	return named && name != environmentName(config) && name != filesName(config) && generation < a.Generation
}

// generationOf is the generation of the agent's record that an object was applied for; 0 if an earlier release made it.
func generationOf(o metav1.Object) int64 {
	generation, err := strconv.ParseInt(o.GetAnnotations()[annotationGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}

// pruneEnvironment deletes a Secret and its ConfigMap. The ConfigMap goes last: if the worker dies in between, the next
// one finds it.
func (c *client) pruneEnvironment(ctx context.Context, a agent.Agent, plain *metav1.PartialObjectMetadata) error {
	if strings.HasPrefix(plain.GetName(), filesPrefix) { // no Secret has this name
		_, err := c.deleteVersion(ctx, core("ConfigMap", plain.GetNamespace(), plain.GetName()), plain)
		return err
	}
	t := core("Secret", plain.GetNamespace(), plain.GetName())
	secret, err := c.touch(ctx, t)
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return explain(err, t)
	case !isLeftover(secret.Name, generationOf(secret), a):
		return nil
	default:
		if deleted, err := c.deleteVersion(ctx, t, secret); !deleted || err != nil {
			return err
		}
	}
	_, err = c.deleteVersion(ctx, core("ConfigMap", plain.GetNamespace(), plain.GetName()), plain)
	return err
}

// touch reads the metadata of an object by a patch that changes nothing. Workers have no right to read Secrets.
func (c *client) touch(ctx context.Context, t target) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.patch(ctx, t, patch{kind: types.MergePatchType, body: []byte("{}")},
		metav1.PatchOptions{FieldManager: fieldManager})
}

// deleteVersion deletes an object unless it has changed since it was read. It reports whether the object is gone.
func (c *client) deleteVersion(ctx context.Context, t target, read metav1.Object) (deleted bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	uid, version := read.GetUID(), read.GetResourceVersion()
	err = c.objects.delete(ctx, t,
		metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	switch {
	case apierrors.IsConflict(err):
		return false, nil
	case apierrors.IsNotFound(err):
		return true, nil
	}
	return err == nil, explain(err, t)
}
