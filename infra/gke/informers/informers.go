// Package informers prepares what a pod needs to watch its own cell: the configuration of its client, and informers. It
// sends no requests, and it links neither a Google Cloud library nor the clients of other API groups.
package informers

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
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
	Version schema.GroupVersion
	// Register adds the types of the objects, such as corev1.AddToScheme.
	Register func(*runtime.Scheme) error
}

// Client returns a client with the given name. The API server sets the limits of requests. Objects arrive as protobuf,
// which costs less to decode than JSON.
//
// A clientset would link the types and clients of all API groups, which take memory in every pod.
func Client(config *rest.Config, name string, of Group) (*rest.RESTClient, error) {
	types := runtime.NewScheme()
	if err := of.Register(types); err != nil {
		return nil, fmt.Errorf("register the types of %s: %w", of.Version, err)
	}
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = name, -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.GroupVersion, config.APIPath = &of.Version, "/apis"
	if of.Version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return client, nil
}

// New returns an informer of the objects that match a label selector, indexed by namespace. It stores what strip keeps
// of them. It does not repeat unchanged objects: its resync period is zero.
func New(
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
