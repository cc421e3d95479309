package gke

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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
//
// Most calls need the metadata of an object only, and ask for no more. Everything arrives as protobuf.
type client struct {
	cell    string
	objects *objectClient
}

// ours selects the objects of agents.
const ours = labelManagedBy + "=" + fieldManager + "," + labelAgent

func (t target) resource() schema.GroupVersionResource {
	plural, _ := meta.UnsafeGuessKindToResource(t.gvk) // right for every kind that this package knows
	return plural
}

// get reads an object into one of its type.
func (c *client) get(ctx context.Context, t target, into runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.get(ctx, t, into)
}

func (c *client) getMetadata(ctx context.Context, t target) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.getMetadata(ctx, t)
}

// patch sends an object by server-side apply and returns the metadata of what the object has become. It takes back
// fields of ours that others have changed in between; the objects hold no other fields.
func (c *client) patch(ctx context.Context, t target, body []byte) (*metav1.PartialObjectMetadata, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.patch(ctx, t, patch{kind: types.ApplyYAMLPatchType, body: body},
		metav1.PatchOptions{FieldManager: fieldManager, Force: new(true)})
}

// create makes an object that does not exist.
func (c *client) create(ctx context.Context, t target, o runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.create(ctx, t, o)
}

// delete begins the deletion of an object if it still has the uid.
func (c *client) delete(ctx context.Context, t target, uid types.UID) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return c.objects.delete(ctx, t, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
}

// maxListAttempts bounds how often a list is begun again because its pages had grown too old to go on.
const maxListAttempts = 3

// listOf is a list of objects, such as *corev1.PodList.
type listOf[L any] interface {
	*L
	runtime.Object
	metav1.ListInterface
}

// selection is what list lists.
type selection struct {
	target
	selectors metav1.ListOptions
}

// list passes every page of objects to see. All pages are of one resource version. If that version expires, list starts
// again, so see must accept objects that it has already seen. begin is called at every start. see must not keep
// objects, so that the memory for a list does not grow with the number of its pages.
func list[L any, P listOf[L]](ctx context.Context, c *client, s selection, begin func(), see func(P)) error {
	return listPages(s.selectors, begin, func(o metav1.ListOptions) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		page := P(new(L))
		if err := c.objects.list(ctx, s.target, o, page); err != nil {
			return "", fmt.Errorf("list %s: %w", s.target, err)
		}
		see(page)
		return page.GetContinue(), nil
	})
}

// listMetadata passes the metadata of every object that a selector matches to see. For the rest it is like list.
func (c *client) listMetadata(ctx context.Context, t target, selector string, begin func(),
	see func(*metav1.PartialObjectMetadata),
) error {
	return listPages(metav1.ListOptions{LabelSelector: selector}, begin, func(o metav1.ListOptions) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		page, err := c.objects.listMetadata(ctx, t, o)
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
