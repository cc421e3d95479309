// Package registry writes the objects of the embedded Kubernetes as an API server does: it sets defaults, validates,
// asks admission, records who manages which fields, and stores what changed. It does not know HTTP.
package registry

import (
	"fmt"
	"reflect"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/kinds"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Registry writes to a store. Its methods may be called from any goroutine; each is one atomic change.
type Registry struct {
	Store     *store.Store
	Catalog   *kinds.Catalog
	Admission *admission.Admission
}

// Request says what to write, and in whose name.
type Request struct {
	User        authenticationv1.UserInfo
	Kind        *kinds.Kind
	Key         store.Key
	Subresource string // status, scale, finalize, binding or empty
	Manager     string // of the fields that the request sets
	DryRun      bool   // check everything and store nothing
	Force       bool   // take over the fields of other managers when applying
	Warn        func(string)
	// Check refuses an object that the user may not write, with the old one or nil; it may be nil.
	Check func(o, old runtime.Object) error
}

// attributes are what admission decides by.
func (q *Request) attributes(operation admission.Operation, o, old runtime.Object) admission.Attributes {
	return admission.Attributes{
		Operation: operation, User: q.User, Kind: q.Kind, Key: q.Key, Subresource: q.Subresource, DryRun: q.DryRun,
		Object: o, Old: old, Warn: q.warn,
	}
}

func (q *Request) warn(text string) {
	if q.Warn != nil {
		q.Warn(text)
	}
}

func (q *Request) check(o, old runtime.Object) error {
	if q.Check == nil {
		return nil
	}
	return q.Check(o, old)
}

func (q *Request) notFound() error { return apierrors.NewNotFound(q.Kind.Resource(), q.Key.Name) }

// Get returns an object, which must not be changed.
func (r *Registry) Get(k *kinds.Kind, key store.Key) (runtime.Object, error) {
	r.Store.RLock()
	defer r.Store.RUnlock()
	if o := r.Store.Get(k, key); o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(k.Resource(), key.Name)
}

// put stores a changed object, or removes it if it was deleted and nothing keeps it any more. It stores nothing if
// nothing changed but the times of managed fields. It returns the object as it is stored.
func (r *Registry) put(q *Request, next, live runtime.Object) runtime.Object {
	switch {
	case live != nil && unchanged(next, live):
		return live
	case q.DryRun:
		return next
	case live != nil && store.Meta(next).GetDeletionTimestamp() != nil && released(next):
		r.Store.Remove(q.Kind, q.Key, next)
		return next
	}
	r.Store.Put(q.Kind, q.Key, next)
	return next
}

// unchanged reports whether two states of an object differ in nothing but the times of managed fields.
func unchanged(a, b runtime.Object) bool {
	x, y := shallowCopy(a), shallowCopy(b)
	for _, o := range []runtime.Object{x, y} {
		m := store.Meta(o)
		m.SetManagedFields(withoutTimes(m.GetManagedFields()))
		m.SetResourceVersion("")
	}
	return equality.Semantic.DeepEqual(x, y)
}

// specificationChanged reports whether two states differ in anything that a controller would act on.
func specificationChanged(a, b runtime.Object) bool {
	x, y := shallowCopy(a), shallowCopy(b)
	for _, o := range []runtime.Object{x, y} {
		if f := reflect.ValueOf(o).Elem().FieldByName("ObjectMeta"); f.IsValid() {
			f.SetZero()
		}
		clearStatus(o)
	}
	return !equality.Semantic.DeepEqual(x, y)
}

// shallowCopy copies an object without what its fields point to.
func shallowCopy(o runtime.Object) runtime.Object {
	v := reflect.ValueOf(o).Elem()
	copied := reflect.New(v.Type())
	copied.Elem().Set(v)
	return copied.Interface().(runtime.Object)
}

func withoutTimes(fields []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	copied := append([]metav1.ManagedFieldsEntry(nil), fields...)
	for i := range copied {
		copied[i].Time = nil
	}
	return copied
}

// clearStatus empties the status of an object that has one.
func clearStatus(o runtime.Object) {
	if f := reflect.ValueOf(o).Elem().FieldByName("Status"); f.IsValid() {
		f.SetZero()
	}
}

// keepField sets a field, such as Status, to that of another object.
func keepField(to, from runtime.Object, name string) {
	t, f := reflect.ValueOf(to).Elem().FieldByName(name), reflect.ValueOf(from).Elem().FieldByName(name)
	if t.IsValid() {
		t.Set(f)
	}
}

func conflict(q *Request, format string, args ...any) error {
	return apierrors.NewConflict(q.Kind.Resource(), q.Key.Name, fmt.Errorf(format, args...))
}

// otherNamespace is what is wrong with an object of another namespace than that of its path.
const otherNamespace = "the namespace of the provided object does not match the namespace sent on the request"

// errOtherName says that an object has another name than its path.
func errOtherName(q *Request, name string) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)",
		name, q.Key.Name))
}

// modified is the text of a conflict of resource versions.
const modified = "the object has been modified; please apply your changes to the latest version and try again"
