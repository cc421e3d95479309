package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// generation is the annotation that the admission policy of Options.Fence compares.
const generation = "agents.example/generation"

// applyFence applies the objects of the file.
func applyFence(ctx context.Context, config *rest.Config, file string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for the fence: %w", err)
	}
	text, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("read the fence: %w", err)
	}
	defer func() { _ = text.Close() }()
	for documents := yaml.NewYAMLOrJSONDecoder(text, 4096); ; {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("decode the fence %s: %w", file, err)
		}
		plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		_, err := client.Resource(plural).Apply(ctx, o.GetName(), o,
			metav1.ApplyOptions{FieldManager: "bootstrap", Force: true})
		if err != nil {
			return fmt.Errorf("apply %s %s of the fence: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

// awaitFence waits until the API server enforces the fence: it must refuse to lower the generation of an object.
func awaitFence(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
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
