package registry

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Update replaces an object by what change makes of a copy of it, and returns it as it is stored.
func (r *Registry) Update(q Request, change func(live runtime.Object) (runtime.Object, error)) (runtime.Object, error) {
	r.Store.Lock()
	defer r.Store.Unlock()
	live := r.Store.Get(q.Kind, q.Key)
	if live == nil {
		return nil, q.notFound()
	}
	next, err := change(live.DeepCopyObject())
	if err != nil {
		return nil, err
	}
	if next, err = r.prepareUpdate(&q, next, live, true); err != nil {
		return nil, err
	}
	return r.put(&q, next, live), nil
}

// prepareUpdate completes a changed object and checks everything. The manager of an object that is not applied manages
// the fields that changed. The caller holds the store's lock.
func (r *Registry) prepareUpdate(q *Request, next, live runtime.Object, manage bool) (runtime.Object, error) {
	if err := checkIdentity(q, next, live); err != nil {
		return nil, err
	}
	next.GetObjectKind().SetGroupVersionKind(q.Kind.GroupVersionKind)
	m, old := store.Meta(next), store.Meta(live)
	m.SetName(q.Key.Name)
	m.SetNamespace(q.Key.Namespace)
	if m.GetUID() == "" {
		m.SetUID(old.GetUID())
	}
	m.SetCreationTimestamp(old.GetCreationTimestamp())
	m.SetDeletionTimestamp(old.GetDeletionTimestamp())
	m.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	m.SetGenerateName(old.GetGenerateName())
	m.SetGeneration(old.GetGeneration())
	m.SetResourceVersion(old.GetResourceVersion())
	keepOtherPart(q, next, live.DeepCopyObject()) // readers have the live one, and defaults are set in what is kept
	r.setDefaults(next, live)
	if manage {
		next = q.Kind.Update(live, next, q.Subresource, q.Manager)
	}
	attributes := q.attributes(admission.Update, next, live)
	if err := r.Admission.Mutate(attributes); err != nil {
		return nil, err
	}
	if errs := validate(q, next, live); len(errs) > 0 {
		return nil, apierrors.NewInvalid(q.Kind.GroupKind(), m.GetName(), errs)
	}
	if q.Kind.Generation && q.Subresource != "status" && specificationChanged(next, live) {
		m.SetGeneration(old.GetGeneration() + 1)
	}
	if err := q.check(next, live); err != nil {
		return nil, err
	}
	return next, r.Admission.Validate(attributes)
}

// keepOtherPart undoes the changes that a request may not make: those of the status, or all others.
func keepOtherPart(q *Request, next, live runtime.Object) {
	m, old := store.Meta(next), store.Meta(live)
	if n, ok := next.(*corev1.Namespace); ok && q.Subresource != "finalize" {
		n.Spec.Finalizers = live.(*corev1.Namespace).Spec.Finalizers
	}
	switch {
	case q.Subresource == "status":
		keepField(next, live, "Spec")
		m.SetLabels(old.GetLabels())
		m.SetAnnotations(old.GetAnnotations())
		m.SetFinalizers(old.GetFinalizers())
		m.SetOwnerReferences(old.GetOwnerReferences())
	case q.Subresource == "" && q.Kind.Status:
		keepField(next, live, "Status")
	}
}

// checkIdentity refuses a changed object that is another one, or one that has changed in between.
func checkIdentity(q *Request, next, live runtime.Object) error {
	m, old := store.Meta(next), store.Meta(live)
	switch {
	case m.GetName() != q.Key.Name:
		return errOtherName(q, m.GetName())
	case q.Kind.Namespaced && m.GetNamespace() != "" && m.GetNamespace() != q.Key.Namespace:
		return apierrors.NewBadRequest(otherNamespace)
	case m.GetResourceVersion() != "" && strings.Trim(m.GetResourceVersion(), "0123456789") != "":
		return fmt.Errorf("resourceVersion: Invalid value: %q: must be a number", m.GetResourceVersion())
	case m.GetResourceVersion() != "" && m.GetResourceVersion() != old.GetResourceVersion():
		return conflict(q, modified)
	}
	return nil
}

// Patched returns the JSON of an object after a patch of any type but apply.
func Patched(kind types.PatchType, object any, patch []byte) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	switch kind {
	case types.JSONPatchType:
		var operations jsonpatch.Patch
		if operations, err = jsonpatch.DecodePatch(patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if text, err = operations.Apply(text); err != nil {
			return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "",
				schema.GroupResource{}, "",
				err.Error(), 0, false)
		}
	case types.MergePatchType:
		text, err = jsonpatch.MergePatch(text, patch)
	default:
		text, err = strategicpatch.StrategicMergePatch(text, patch, object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return text, nil
}

// Bind assigns a pod to a node, unless it is on one already.
func (r *Registry) Bind(q Request, node string) error {
	q.Subresource = "binding"
	_, err := r.Update(q, func(live runtime.Object) (runtime.Object, error) {
		pod := live.(*corev1.Pod)
		switch {
		case pod.DeletionTimestamp != nil:
			return nil, conflict(&q, "pod %s is being deleted, cannot be assigned to a host", pod.Name)
		case pod.Spec.NodeName != "":
			return nil, conflict(&q, "pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
		}
		pod.Spec.NodeName = node
		r.copyTopology(pod, node)
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			ObservedGeneration: pod.Generation,
		}}
		return pod, nil
	})
	return err
}

// copyTopology tells a pod in which zone and region it is. The store is locked.
func (r *Registry) copyTopology(pod *corev1.Pod, node string) {
	o := r.Store.Get(r.Catalog.Core("Node"), store.Key{Name: node})
	if o == nil {
		return
	}
	for _, label := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if value, ok := store.Meta(o).GetLabels()[label]; ok {
			if pod.Labels == nil {
				pod.Labels = map[string]string{}
			}
			pod.Labels[label] = value
		}
	}
}
