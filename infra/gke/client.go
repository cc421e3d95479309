package gke

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
)

const (
	// callTimeout is the deadline of every call but a watch, client-go's own retries included.
	callTimeout = 10 * time.Second
	// pageSize is how many objects one call lists.
	pageSize = 500
)

// target is one object of the API, or several where the name is empty.
type target struct {
	gvk       schema.GroupVersionKind
	namespace string // empty for what is in none
	name      string
}

func core(kind, namespace, name string) target {
	return target{gvk: schema.GroupVersionKind{Version: "v1", Kind: kind}, namespace: namespace, name: name}
}

// String names the target in errors and logs.
func (t target) String() string {
	s := t.gvk.Kind
	if t.name != "" {
		s += " " + t.name
	}
	if t.namespace != "" {
		s += " in " + t.namespace
	}
	return s
}

// client speaks to the API server of one cell. Its errors are the API's own; see explain.
type client struct {
	cell     string
	api      dynamic.Interface
	metadata metadata.Interface
}

// ours selects the objects of agents.
const ours = labelManagedBy + "=" + fieldManager + "," + labelAgent

func (c *client) at(t target) dynamic.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(t.gvk) // right for every kind that this package knows
	if t.namespace == "" {
		return c.api.Resource(plural)
	}
	return c.api.Resource(plural).Namespace(t.namespace)
}

func (c *client) metadataAt(t target) metadata.ResourceInterface {
	plural, _ := meta.UnsafeGuessKindToResource(t.gvk)
	if t.namespace == "" {
		return c.metadata.Resource(plural)
	}
	return c.metadata.Resource(plural).Namespace(t.namespace)
}

func (c *client) get(ctx context.Context, t target) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.at(t).Get(ctx, t.name, metav1.GetOptions{})
}

// patch sends an object by server-side apply and returns what the object has become. It takes back fields of
// ours that others have changed in between; the objects hold no other fields.
func (c *client) patch(ctx context.Context, t target, body []byte) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.at(t).Patch(ctx, t.name, types.ApplyYAMLPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
}

// delete begins the deletion of an object if it still has the uid.
func (c *client) delete(ctx context.Context, t target, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.at(t).Delete(ctx, t.name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// maxListAttempts bounds how often a list is begun again because its pages had grown too old to go on.
const maxListAttempts = 3

// list passes every object to see. All pages are of one resource version. If that version expires, list starts again,
// so see must accept objects that it has already seen. begin is called at every start.
func (c *client) list(ctx context.Context, t target, o metav1.ListOptions, begin func(),
	see func(*unstructured.Unstructured),
) error {
	return listPages(o, begin, func(o metav1.ListOptions) (string, error) {
		page, err := c.page(ctx, t, o)
		if err != nil {
			return "", err
		}
		for i := range page.Items {
			see(&page.Items[i])
		}
		return page.GetContinue(), nil
	})
}

// listMetadata passes the metadata of every object of agents to see, as list does.
func (c *client) listMetadata(ctx context.Context, t target, begin func(),
	see func(*metav1.PartialObjectMetadata),
) error {
	return listPages(metav1.ListOptions{LabelSelector: ours}, begin, func(o metav1.ListOptions) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		page, err := c.metadataAt(t).List(ctx, o)
		if err != nil {
			return "", fmt.Errorf("list the metadata of %s: %w", t, err)
		}
		for i := range page.Items {
			see(&page.Items[i])
		}
		return page.GetContinue(), nil
	})
}

// listPages calls page for each page. page returns the token of the next page.
func listPages(o metav1.ListOptions, begin func(), page func(metav1.ListOptions) (string, error)) error {
	o.Limit = pageSize
	var err error
	for range maxListAttempts {
		begin()
		for o.Continue = ""; ; {
			if o.Continue, err = page(o); err != nil || o.Continue == "" {
				break
			}
		}
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
	return err
}

func (c *client) page(ctx context.Context, t target, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := c.at(t).List(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", t, err)
	}
	return page, nil
}
