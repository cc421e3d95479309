// Package informers prepares what a pod needs to watch its own cell: the configuration of its client, and informers. It
// sends no requests, and it links neither a Google Cloud library nor the clients of other API groups.
package informers

import (
	"context"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
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

// Client returns a copy of a configuration for a client with the given name, and its HTTP client. The API server sets
// the limits of requests. Objects arrive as protobuf, which costs less to decode than JSON.
func Client(config *rest.Config, name string) (*rest.Config, *http.Client, error) {
	config = rest.CopyConfig(config)
	config.UserAgent, config.QPS = name, -1
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return config, client, nil
}

// Lister is what the typed clients have in common.
type Lister[L runtime.Object] interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// New returns an informer of the objects that match a label selector, indexed by namespace. It stores what strip keeps
// of them. It does not repeat unchanged objects: its resync period is zero.
func New[L runtime.Object](
	of Lister[L], example runtime.Object, selector string, strip cache.TransformFunc,
) (cache.SharedIndexInformer, error) {
	informer := cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return of.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			return of.Watch(ctx, o)
		},
	}, example, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := informer.SetTransform(strip); err != nil {
		return nil, fmt.Errorf("strip what is watched: %w", err)
	}
	return informer, nil
}
