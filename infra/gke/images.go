package gke

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// keepImages puts the images of the present pod template into a StatefulSet if the template is of the same
// configuration. Otherwise the first repair of an agent's objects after a release would restart the agent. An image
// that another program has changed is not kept.
func (c *client) keepImages(ctx context.Context, set *appsv1.StatefulSet) error {
	t := targetOf(set)
	var live appsv1.StatefulSet
	err := c.get(ctx, t, &live)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return explain(err, t)
	}
	desired, present := &set.Spec.Template, &live.Spec.Template
	if desired.Annotations[annotationConfig] != present.Annotations[annotationConfig] {
		return nil
	}
	own := decodeSets(ownSets(live.ManagedFields))
	copyImages(desired.Spec.InitContainers, present.Spec.InitContainers, own, "initContainers")
	copyImages(desired.Spec.Containers, present.Spec.Containers, own, "containers")
	return nil
}

// copyImages copies the images that are among the fields that the control plane owns. list is the field of the
// containers.
func copyImages(to, from []corev1.Container, own map[string]any, list string) {
	for i := range to {
		for j := range from {
			image := map[string]any{"name": to[i].Name, "image": nil}
			pod := map[string]any{"spec": map[string]any{list: []any{image}}}
			if to[i].Name == from[j].Name && hasFields(own, map[string]any{"spec": map[string]any{"template": pod}}) {
				to[i].Image = from[j].Image
			}
		}
	}
}
