package registry

import (
	"errors"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
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
	if live := r.Store.Get(q.Kind, q.Key); live != nil {
		return nil, alreadyExists(&q, live)
	}
	if store.Meta(o).GetResourceVersion() != "" {
		return nil, errors.New("resourceVersion should not be set on objects to be created")
	}
	o, err := r.prepareCreate(&q, o, true)
	if err != nil {
		return nil, err
	}
	return r.put(&q, o, nil), nil
}

func alreadyExists(q *Request, live runtime.Object) error {
	err := apierrors.NewAlreadyExists(q.Kind.Resource(), q.Key.Name)
	if store.Meta(live).GetDeletionTimestamp() != nil {
		err.ErrStatus.Message = "object is being deleted: " + err.ErrStatus.Message
	}
	return err
}

// identify completes the name of a new object, and of the request.
func (r *Registry) identify(q *Request, o runtime.Object) error {
	m := store.Meta(o)
	if m.GetName() == "" && m.GetGenerateName() != "" {
		m.SetName(m.GetGenerateName() + rand.String(generatedLength))
	}
	switch {
	case q.Key.Name != "" && m.GetName() != q.Key.Name:
		return errOtherName(q, m.GetName())
	case !q.Kind.Namespaced:
		m.SetNamespace("")
	case m.GetNamespace() != "" && m.GetNamespace() != q.Key.Namespace:
		return apierrors.NewBadRequest(otherNamespace)
	default:
		m.SetNamespace(q.Key.Namespace)
	}
	q.Key.Name = m.GetName()
	return nil
}

// prepareCreate completes a new object and checks everything. The manager of an object that is not applied manages all
// its fields. The caller holds the store's lock.
func (r *Registry) prepareCreate(q *Request, o runtime.Object, manage bool) (runtime.Object, error) {
	m := store.Meta(o)
	m.SetResourceVersion("")
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
	if manage {
		o = q.Kind.Update(q.Kind.New(), o, "", q.Manager)
	}
	attributes := q.attributes(admission.Create, o, nil)
	if err := r.Admission.Mutate(attributes); err != nil {
		return nil, err
	}
	errs := validate(q, o, nil)
	if service, ok := o.(*corev1.Service); ok {
		errs = append(errs, r.validateClusterIP(service)...)
	}
	if len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.Kind.GroupKind(), m.GetName(), errs)
	}
	if err := q.check(o, nil); err != nil {
		return nil, err
	}
	return o, r.Admission.Validate(attributes)
}
