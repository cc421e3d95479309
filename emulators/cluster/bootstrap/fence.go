package bootstrap

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/kubeclient"
)

// generation is the annotation that the admission policy of Options.Fence compares.
const generation = "agents.example/generation"

// awaitFence waits until the API server enforces the fence: it must refuse to lower the generation of an object.
func awaitFence(ctx context.Context, client *kubeclient.Client) error {
	maps := client.ConfigMaps(metav1.NamespaceSystem)
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Name: "fence-probe", Annotations: map[string]string{generation: "2"},
	}}
	if _, err := maps.Create(ctx, probe, metav1.CreateOptions{}); ignoreExists(err) != nil {
		return fmt.Errorf("create the object that proves the fence: %w", err)
	}
	probe.Annotations[generation] = "1"
	err := until(ctx, "the fence", func(ctx context.Context) error {
		_, err := maps.Update(ctx, probe, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) {
			return nil
		}
		return errors.Join(errors.New("the API server accepts a lower generation"), err)
	})
	if err != nil {
		return err
	}
	if err := maps.Delete(ctx, probe.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the object that proved the fence: %w", err)
	}
	return nil
}
