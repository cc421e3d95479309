package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

	"agents.example/controlplane/emulators/kubeclient"
)

// applyFile applies the objects of a YAML file, which have no namespaces, and returns them.
func applyFile(ctx context.Context, client *kubeclient.Client, file string) (applied []unstructured.Unstructured,
	err error,
) {
	text, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read objects to apply: %w", err)
	}
	defer func() { _ = text.Close() }()
	for documents := yaml.NewYAMLOrJSONDecoder(text, 4096); ; {
		var o unstructured.Unstructured
		if err := documents.Decode(&o.Object); errors.Is(err, io.EOF) {
			return applied, nil
		} else if err != nil {
			return nil, fmt.Errorf("decode %s: %w", file, err)
		}
		if len(o.Object) == 0 { // between separators
			continue
		}
		if err := apply(ctx, client, &o); err != nil {
			return nil, fmt.Errorf("apply %s %s of %s: %w", o.GetKind(), o.GetName(), file, err)
		}
		applied = append(applied, o)
	}
}

func apply(ctx context.Context, client *kubeclient.Client, o *unstructured.Unstructured) error {
	body, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	return client.REST().Patch(types.ApplyYAMLPatchType).
		AbsPath("/apis", plural.Group, plural.Version, plural.Resource, o.GetName()).
		Param("fieldManager", "bootstrap").Param("force", "true").Body(body).Do(ctx).Error()
}

// establish creates the resources that files define and waits until the API server serves them.
func establish(ctx context.Context, client *kubeclient.Client, files []string) error {
	var paths []string
	for _, file := range files {
		definitions, err := applyFile(ctx, client, file)
		if err != nil {
			return err
		}
		for i := range definitions {
			path, err := pathOf(&definitions[i])
			if err != nil {
				return fmt.Errorf("CRD file %s: %w", file, err)
			}
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		err := until(ctx, "custom resource "+path, func(ctx context.Context) error {
			return client.REST().Get().AbsPath(path).Do(ctx).Error()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pathOf returns the path that lists the objects of a custom resource.
func pathOf(crd *unstructured.Unstructured) (string, error) {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		if version["served"] == true && version["storage"] == true {
			return fmt.Sprintf("/apis/%s/%v/%s", group, version["name"], plural), nil
		}
	}
	return "", fmt.Errorf("%s %s serves no version that it stores", crd.GetKind(), crd.GetName())
}
