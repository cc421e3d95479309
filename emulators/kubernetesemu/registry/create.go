package registry

import (
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// generatedLength is how many characters complete a generated name.
const generatedLength = 5

// Create stores a new object, which the registry may change, and returns it as it is stored.
func (r *Registry) Create(q Request, o runtime.Object) (runtime.Object, error) {
	r.Store.Lock()
	defer r.Store.Unlock()
	if err := r.identify(&q, o); err != nil {
		return nil, err
	}
	if r.Store.Get(q.Kind, q.Key) != nil {
		return nil, apierrors.NewAlreadyExists(q.Kind.Resource(), q.Key.Name)
	}
	if err := r.prepareCreate(&q, o); err != nil {
		return nil, err
	}
	return r.put(&q, q.Kind.Update(q.Kind.New(), o, q.Subresource, q.Manager), nil), nil
}

// identify completes the name of a new object, and of the request.
func (r *Registry) identify(q *Request, o runtime.Object) error {
	m := store.Meta(o)
	if m.GetName() == "" && m.GetGenerateName() != "" {
		m.SetName(m.GetGenerateName() + rand.String(generatedLength))
	}
	switch {
	case q.Key.Name != "" && m.GetName() != q.Key.Name:
		return apierrors.NewBadRequest("the name of the object does not match the name on the URL")
	case !q.Kind.Namespaced:
		m.SetNamespace("")
	case m.GetNamespace() != "" && m.GetNamespace() != q.Key.Namespace:
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	default:
		m.SetNamespace(q.Key.Namespace)
	}
	q.Key.Name = m.GetName()
	return nil
}

// prepareCreate completes a new object and checks everything. The caller holds the store's lock.
func (r *Registry) prepareCreate(q *Request, o runtime.Object) error {
	m := store.Meta(o)
	if m.GetResourceVersion() != "" {
		return apierrors.NewBadRequest("resourceVersion should not be set on objects to be created")
	}
	o.GetObjectKind().SetGroupVersionKind(q.Kind.GroupVersionKind)
	m.SetUID(types.UID(uuid.NewString()))
	m.SetCreationTimestamp(metav1.NewTime(time.Now().Truncate(time.Second)))
	m.SetDeletionTimestamp(nil)
	m.SetDeletionGracePeriodSeconds(nil)
	m.SetSelfLink("")
	if m.SetGeneration(0); q.Kind.Generation {
		m.SetGeneration(1)
	}
	if q.Kind.Status {
		clearStatus(o)
	}
	r.setDefaults(o, nil)
	attributes := q.attributes(admission.Create, o, nil)
	if err := r.Admission.Mutate(attributes); err != nil {
		return err
	}
	if errs := validate(q, o, nil); len(errs) > 0 {
		return apierrors.NewInvalid(q.Kind.GroupVersionKind.GroupKind(), m.GetName(), errs)
	}
	return r.Admission.Validate(attributes)
}
