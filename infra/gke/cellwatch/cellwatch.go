// Package cellwatch is what the pods of a cell's data plane see of their cell: the router its endpoints, the gate its
// policies, and the notifier its pods. Every watch keeps of an object only what its reader asks for. The package links
// neither a Google Cloud library nor the clients of other API groups.
package cellwatch

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"

	"agents.example/controlplane/shared/agent"
)

const (
	// service is the name of every agent's Service.
	service = "agent"
	// managed selects the objects of agents, and ofService their slices: the controller copies the labels of a Service
	// to its slices.
	managed   = "app.kubernetes.io/managed-by=agent-control-plane"
	ofService = managed + "," + discoveryv1.LabelServiceName + "=" + service
)

// Connect returns the configuration of clients. Without a kubeconfig it is that of a pod's service account.
func Connect(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return config, nil
}

// Group is a version of an API group whose objects a client reads.
type Group struct {
	version  schema.GroupVersion
	register func(*runtime.Scheme) error
}

// Core has pods, Services, namespaces and volumes.
func Core() Group { return Group{version: corev1.SchemeGroupVersion, register: corev1.AddToScheme} }

// Discovery has EndpointSlices.
func Discovery() Group {
	return Group{version: discoveryv1.SchemeGroupVersion, register: discoveryv1.AddToScheme}
}

// Client returns a client with the given name. The API server sets the limits of requests. Objects arrive as protobuf,
// which costs less to decode than JSON.
//
// A clientset would link the types and clients of all API groups, which take memory in every pod.
func Client(config *rest.Config, name string, of Group) (*rest.RESTClient, error) {
	types := runtime.NewScheme()
	if err := of.register(types); err != nil {
		return nil, fmt.Errorf("register the types of %s: %w", of.version, err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = name, -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.GroupVersion, config.APIPath = &of.version, "/apis"
	if of.version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

// NewInformer returns an informer of the objects that match a label selector, indexed by namespace. It stores what
// strip keeps of them. It does not repeat unchanged objects: its resync period is zero.
func NewInformer(
	client *rest.RESTClient, resource string, example runtime.Object, selector string, strip cache.TransformFunc,
) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(
		cache.NewFilteredListWatchFromClient(client, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) {
			o.LabelSelector = selector
		}), example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(strip); err != nil {
		return nil, fmt.Errorf("strip what is watched: %w", err)
	}
	return informer, nil
}

// errNeverListed means that the cluster was not read before a context ended.
var errNeverListed = errors.New("the agents could not be listed")

// handlers are those of a watch's informers.
type handlers []cache.ResourceEventHandlerRegistration

func (h *handlers) add(informer cache.SharedIndexInformer, events cache.ResourceEventHandler) error {
	registration, err := informer.AddEventHandler(events)
	if err != nil {
		return fmt.Errorf("watch a cell: %w", err)
	}
	*h = append(*h, registration)
	return nil
}

// synced reports whether the handlers have seen the first lists. The informers themselves have synced earlier.
func (h handlers) synced() bool {
	for _, one := range h {
		if !one.HasSynced() {
			return false
		}
	}
	return true
}

// awaitSync waits for synced.
func (h handlers) awaitSync(ctx context.Context) error {
	if !cache.WaitForCacheSync(ctx.Done(), h.synced) {
		return errNeverListed
	}
	return nil
}

// slicesOf returns the namespace of the agent that a slice of an event belongs to, and all its slices. A foreign slice
// with copied labels must not become an agent: ok is false.
func slicesOf(informer cache.SharedIndexInformer, object any) (
	namespace string, all []*discoveryv1.EndpointSlice, ok bool,
) {
	slice, ok := known(object).(*discoveryv1.EndpointSlice)
	if !ok {
		return "", nil, false
	}
	if _, ok := agent.IDFromNamespace(slice.Namespace); !ok {
		return "", nil, false
	}
	found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, slice.Namespace)
	if err != nil { // the index exists
		return "", nil, false
	}
	for _, o := range found {
		if s, ok := o.(*discoveryv1.EndpointSlice); ok {
			all = append(all, s)
		}
	}
	return slice.Namespace, all, true
}

// known is the object of an event; of a deletion that was not seen itself, it is what was known of the object before.
func known(object any) any {
	if missed, ok := object.(cache.DeletedFinalStateUnknown); ok {
		return missed.Obj
	}
	return object
}

// stripMeta keeps the metadata that an informer needs.
func stripMeta(o metav1.Object) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}
}
