package kubeclient

import (
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/gentype"
	clienttesting "k8s.io/client-go/testing"
)

// NewFake returns a client of objects in memory, for tests of code that needs no API server: it neither validates nor
// completes them.
func NewFake(objects ...runtime.Object) (*Client, error) {
	c, err := newClient()
	if err != nil {
		return nil, err
	}
	tracker := clienttesting.NewObjectTracker(c.types, serializer.NewCodecFactory(c.types).UniversalDecoder())
	for _, object := range objects {
		if err := tracker.Add(object); err != nil {
			return nil, err
		}
	}
	c.fake = &clienttesting.Fake{}
	c.fake.AddReactor("*", "*", clienttesting.ObjectReaction(tracker))
	return c, nil
}

func fakeOf[T Object, L runtime.Object](fake *clienttesting.Fake, r resource, namespace string, newObject func() T,
	newList func() L,
) kindClient[T, L] {
	return gentype.NewFakeClientWithList(fake, namespace, r.version.WithResource(r.plural), r.version.WithKind(r.kind),
		newObject, newList, func(L, L) {}, // lists have no metadata that a test reads
		func(list L) (items []T) {
			_ = meta.EachListItem(list, func(item runtime.Object) error { // fails only for what is no list
				items = append(items, item.(T))
				return nil
			})
			return items
		},
		func(list L, items []T) {
			objects := make([]runtime.Object, 0, len(items))
			for _, item := range items {
				objects = append(objects, item)
			}
			_ = meta.SetList(list, objects) // fails only for what is no list
		})
}
