package bootstrap

import (
	"context"
	"fmt"
	"os"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// establish creates the resources that files define and waits until the API server serves them.
func establish(ctx context.Context, config *rest.Config, files []string) error {
	client, err := apiextensions.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for custom resources: %w", err)
	}
	var paths []string
	for _, file := range files {
		path, err := apply(ctx, client, file)
		if err != nil {
			return err
		}
		paths = append(paths, path)
	}
	for _, path := range paths {
		err := until(ctx, "custom resource "+path, func(ctx context.Context) error {
			return client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// apply creates or updates one definition and returns the path that lists its objects.
func apply(ctx context.Context, client apiextensions.Interface, file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read a CRD: %w", err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		return "", fmt.Errorf("decode CRD file %s: %w", file, err)
	}
	force := true
	_, err = client.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, crd.Name, types.ApplyYAMLPatchType, text,
		metav1.PatchOptions{FieldManager: "bootstrap", Force: &force})
	if err != nil {
		return "", fmt.Errorf("apply CRD file %s: %w", file, err)
	}
	for _, version := range crd.Spec.Versions {
		if version.Served && version.Storage {
			return "/apis/" + crd.Spec.Group + "/" + version.Name + "/" + crd.Spec.Names.Plural, nil
		}
	}
	return "", fmt.Errorf("CRD file %s serves no version that it stores", file)
}
