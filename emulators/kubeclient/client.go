// Package kubeclient is a typed client of the kinds of Kubernetes objects that the local cloud and tests use. The
// clientset of client-go would link the types and clients of all API groups, most of which have no users here. It does
// not retry or limit requests.
package kubeclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
)

// Client reads and writes objects. Its methods may be called from any goroutine.
type Client struct {
	http       *http.Client
	types      *runtime.Scheme
	parameters runtime.ParameterCodec
	groups     map[schema.GroupVersion]*rest.RESTClient
	fake       *clienttesting.Fake // instead of groups, of a client that NewFake made
}

// New returns a client without a rate limit. Objects travel as protobuf, which costs less than JSON. Close ends the
// client's idle connections.
func New(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // the server's own limits answer 429
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster: %w", err)
	}
	c, err := newClient()
	if err != nil {
		return nil, err
	}
	c.http = client
	config.NegotiatedSerializer = serializer.NewCodecFactory(c.types).WithoutConversion()
	for _, version := range groupVersions() {
		config.GroupVersion, config.APIPath = &version, "/apis"
		if version.Group == "" {
			config.APIPath = "/api"
		}
		config.ContentType = runtime.ContentTypeProtobuf
		if version == SnapshotVersion { // custom resources have none
			config.ContentType = runtime.ContentTypeJSON
		}
		config.AcceptContentTypes = config.ContentType + "," + runtime.ContentTypeJSON
		if c.groups[version], err = rest.RESTClientForConfigAndClient(config, client); err != nil {
			return nil, fmt.Errorf("make a client of %s: %w", version, err)
		}
	}
	return c, nil
}

// groupVersions are the API groups of the kinds.
func groupVersions() []schema.GroupVersion {
	return []schema.GroupVersion{
		corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion,
		networkingv1.SchemeGroupVersion, nodev1.SchemeGroupVersion, rbacv1.SchemeGroupVersion,
		storagev1.SchemeGroupVersion, SnapshotVersion,
	}
}

func newClient() (*Client, error) {
	c := &Client{types: runtime.NewScheme(), groups: map[schema.GroupVersion]*rest.RESTClient{}}
	err := errors.Join(corev1.AddToScheme(c.types), appsv1.AddToScheme(c.types), discoveryv1.AddToScheme(c.types),
		networkingv1.AddToScheme(c.types), nodev1.AddToScheme(c.types), rbacv1.AddToScheme(c.types),
		storagev1.AddToScheme(c.types), AddSnapshotsToScheme(c.types))
	if err != nil {
		return nil, fmt.Errorf("register the types of objects: %w", err)
	}
	c.parameters = runtime.NewParameterCodec(c.types)
	return c, nil
}

// Close closes idle connections. Clients of the same configuration share them.
func (c *Client) Close() {
	if c.http != nil {
		c.http.CloseIdleConnections()
	}
}

// REST returns the client of requests that no kind has, such as /readyz.
func (c *Client) REST() rest.Interface { return c.groups[corev1.SchemeGroupVersion] }

// Subresource returns a request for a subresource of a pod, such as its log.
func (c *Client) Subresource(namespace, pod, name string, o runtime.Object) *rest.Request {
	return c.REST().Get().Namespace(namespace).Resource("pods").Name(pod).SubResource(name).
		VersionedParams(o, c.parameters)
}

// Object is a Kubernetes object.
type Object interface {
	runtime.Object
	metav1.Object
}

// kindClient is what client-go's generic clients have.
type kindClient[T Object, L runtime.Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
	Create(ctx context.Context, object T, o metav1.CreateOptions) (T, error)
	Update(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
	UpdateStatus(ctx context.Context, object T, o metav1.UpdateOptions) (T, error)
	Patch(ctx context.Context, name string, kind types.PatchType, body []byte, o metav1.PatchOptions,
		subresources ...string) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
	DeleteCollection(ctx context.Context, o metav1.DeleteOptions, list metav1.ListOptions) error
}

// Kind reads and writes the objects of one kind, in one namespace if they have namespaces.
type Kind[T Object, L runtime.Object] struct {
	kindClient[T, L]

	version schema.GroupVersionKind
}

// Apply applies the fields that are set in an object. It forces conflicts with other managers.
func (k Kind[T, L]) Apply(ctx context.Context, object T, manager string) (T, error) {
	copied := object.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(k.version)
	body, err := json.Marshal(copied)
	if err != nil {
		var none T
		return none, fmt.Errorf("encode %s %s: %w", k.version.Kind, object.GetName(), err)
	}
	return k.Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: manager, Force: new(true)})
}

// resource names the objects of a kind in the API.
type resource struct {
	version schema.GroupVersion
	plural  string
	kind    string
}

// pointer is a pointer to a type that implements an interface.
type pointer[V any] interface {
	*V
	Object
}

type listPointer[V any] interface {
	*V
	runtime.Object
}

// kindOf returns the client of a kind. The values of its objects and lists are V and W.
func kindOf[V, W any, T pointer[V], L listPointer[W]](c *Client, r resource, namespace string) Kind[T, L] {
	newObject, newList := func() T { return new(V) }, func() L { return new(W) }
	k := Kind[T, L]{version: r.version.WithKind(r.kind)}
	if c.fake != nil {
		k.kindClient = fakeOf(c.fake, r, namespace, newObject, newList)
		return k
	}
	k.kindClient = gentype.NewClientWithList(r.plural, rest.Interface(c.groups[r.version]), c.parameters, namespace,
		newObject, newList)
	return k
}
