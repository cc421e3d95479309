package registry

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Apply merges fields into an object, which it creates if there is none, and returns it as it is stored.
func (r *Registry) Apply(q Request, fields map[string]any) (o runtime.Object, created bool, err error) {
	r.Store.Lock()
	defer r.Store.Unlock()
	applied, err := identifyApplied(&q, fields)
	if err != nil {
		return nil, false, err
	}
	live := r.Store.Get(q.Kind, q.Key)
	if live == nil {
		o, err = r.applyNew(&q, applied)
		return o, true, err
	}
	next, err := q.Kind.Apply(live, applied, q.Subresource, q.Manager, q.Force)
	if err != nil {
		return nil, false, err
	}
	if next, err = r.prepareUpdate(&q, next, live, false); err != nil {
		return nil, false, err
	}
	return r.put(&q, next, live), false, nil
}

func (r *Registry) applyNew(q *Request, applied *unstructured.Unstructured) (runtime.Object, error) {
	if q.Subresource != "" {
		return nil, q.notFound()
	}
	if uid := applied.GetUID(); uid != "" {
		return nil, conflict(q, "uid mismatch: the provided object specified uid %s, and no existing object was found",
			uid)
	}
	next, err := q.Kind.Apply(q.Kind.New(), applied, "", q.Manager, q.Force)
	if err != nil {
		return nil, err
	}
	if next, err = r.prepareCreate(q, next, false); err != nil {
		return nil, err
	}
	return r.put(q, next, nil), nil
}

// identifyApplied returns fields as an object that has the identity that the request names.
func identifyApplied(q *Request, fields map[string]any) (*unstructured.Unstructured, error) {
	applied := &unstructured.Unstructured{Object: fields}
	if gvk := applied.GroupVersionKind(); gvk.GroupVersion() != q.Kind.GroupVersion() || gvk.Kind != q.Kind.Kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object is a %s, and %s is expected", gvk,
			q.Kind.GroupVersionKind))
	}
	if name := applied.GetName(); name != "" && name != q.Key.Name {
		return nil, errOtherName(q, name)
	}
	if n := applied.GetNamespace(); n != "" && n != q.Key.Namespace {
		return nil, apierrors.NewBadRequest(otherNamespace)
	}
	applied.SetName(q.Key.Name)
	if q.Kind.Namespaced {
		applied.SetNamespace(q.Key.Namespace)
	}
	return applied, nil
}
