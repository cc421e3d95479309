package kubeclient

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Informer watches objects of one kind and keeps them in memory.
type Informer[T Object] struct{ cache.SharedIndexInformer }

// NewInformer returns an informer of the objects that match the field selector, of all if it is empty. It begins to
// watch when it is run.
func NewInformer[T Object, L runtime.Object](k Kind[T, L], fields string) (Informer[T], error) {
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = fields
			return k.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = fields
			return k.Watch(ctx, o)
		},
	}
	var example T
	i := Informer[T]{cache.NewSharedIndexInformer(source, example, 0, cache.Indexers{
		cache.NamespaceIndex: cache.MetaNamespaceIndexFunc,
	})}
	// A failed watch begins again; an API server that stops is no news.
	err := i.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
	if err != nil {
		return Informer[T]{}, fmt.Errorf("watch %s: %w", k.version.Kind, err)
	}
	return i, nil
}

// Get returns an object as it was seen last, by its key: its namespace, if it has one, a slash and its name. Do not
// change the object.
func (i Informer[T]) Get(key string) (T, bool) {
	var none T
	found, ok, err := i.GetIndexer().GetByKey(key)
	if err != nil || !ok {
		return none, false
	}
	object, ok := found.(T)
	return object, ok
}

// List returns the objects of a namespace, or all for metav1.NamespaceAll. Do not change them.
func (i Informer[T]) List(namespace string) (objects []T) {
	take := func(found any) {
		if object, ok := found.(T); ok {
			objects = append(objects, object)
		}
	}
	if namespace == metav1.NamespaceAll {
		for _, found := range i.GetIndexer().List() {
			take(found)
		}
		return objects
	}
	found, err := i.GetIndexer().ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return nil // only an index that does not exist fails
	}
	for _, object := range found {
		take(object)
	}
	return objects
}
