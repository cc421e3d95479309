package registry

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/admission"
	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// Delete begins the deletion of an object. It returns the object as of then, and whether it is gone.
func (r *Registry) Delete(q Request, o metav1.DeleteOptions) (last runtime.Object, gone bool, err error) {
	r.Store.Lock()
	defer r.Store.Unlock()
	return r.delete(&q, &o)
}

// DeleteCollection begins the deletion of the objects of a namespace that match, and returns them as of then.
func (r *Registry) DeleteCollection(q Request, o metav1.DeleteOptions, match func(runtime.Object) bool) ([]runtime.Object,
	error,
) {
	r.Store.Lock()
	defer r.Store.Unlock()
	var deleted []runtime.Object
	for _, live := range r.Store.List(q.Kind, q.Key.Namespace) {
		if !match(live) {
			continue
		}
		one := q
		one.Key = store.Key{Namespace: store.Meta(live).GetNamespace(), Name: store.Meta(live).GetName()}
		last, _, err := r.delete(&one, &o)
		if err != nil {
			return nil, err
		}
		deleted = append(deleted, last)
	}
	return deleted, nil
}

// delete does what Delete does; the caller holds the store's lock.
func (r *Registry) delete(q *Request, o *metav1.DeleteOptions) (last runtime.Object, gone bool, err error) {
	live := r.Store.Get(q.Kind, q.Key)
	if live == nil {
		return nil, false, q.notFound()
	}
	if err := checkPreconditions(q, o.Preconditions, live); err != nil {
		return nil, false, err
	}
	if err := r.Admission.Validate(q.attributes(admission.Delete, nil, live)); err != nil {
		return nil, false, err
	}
	next := live.DeepCopyObject()
	m := store.Meta(next)
	grace := gracePeriod(live, o.GracePeriodSeconds)
	if m.GetDeletionTimestamp() == nil {
		at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		m.SetDeletionTimestamp(&at)
		if q.Kind.Generation {
			m.SetGeneration(m.GetGeneration() + 1)
		}
		setPropagation(m, o)
	}
	m.SetDeletionGracePeriodSeconds(&grace)
	if n, ok := next.(*corev1.Namespace); ok {
		n.Status.Phase, n.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil
	}
	gone = released(next)
	return r.put(q, next, live), gone, nil
}

func checkPreconditions(q *Request, p *metav1.Preconditions, live runtime.Object) error {
	m := store.Meta(live)
	switch {
	case p == nil:
	case p.UID != nil && *p.UID != m.GetUID():
		return conflict(q, "the UID in the precondition (%s) does not match the UID in record (%s). The object "+
			"might have been deleted and then recreated", *p.UID, m.GetUID())
	case p.ResourceVersion != nil && *p.ResourceVersion != m.GetResourceVersion():
		return conflict(q, "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in "+
			"record (%s). The object might have been modified", *p.ResourceVersion, m.GetResourceVersion())
	}
	return nil
}

// gracePeriod returns how many seconds an object may take to end. Only pods of a node take any.
func gracePeriod(live runtime.Object, requested *int64) int64 {
	pod, ok := live.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return 0
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	if requested != nil {
		if grace = *requested; grace < 0 {
			grace = 1
		}
	}
	if pod.DeletionGracePeriodSeconds != nil {
		grace = min(grace, *pod.DeletionGracePeriodSeconds) // it never becomes longer
	}
	return grace
}

// setPropagation adds the finalizer that makes the garbage collector treat dependents as a client wants.
func setPropagation(m metav1.Object, o *metav1.DeleteOptions) {
	orphan := o.OrphanDependents != nil && *o.OrphanDependents //nolint:staticcheck // old clients still send it
	finalizer := ""
	switch {
	case orphan, o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationOrphan:
		finalizer = metav1.FinalizerOrphanDependents
	case o.PropagationPolicy != nil && *o.PropagationPolicy == metav1.DeletePropagationForeground:
		finalizer = metav1.FinalizerDeleteDependents
	}
	if finalizer != "" && !slices.Contains(m.GetFinalizers(), finalizer) {
		m.SetFinalizers(append(m.GetFinalizers(), finalizer))
	}
}

// released reports whether nothing keeps a deleted object.
func released(o runtime.Object) bool {
	m := store.Meta(o)
	if n, ok := o.(*corev1.Namespace); ok && len(n.Spec.Finalizers) > 0 {
		return false
	}
	grace := m.GetDeletionGracePeriodSeconds()
	return len(m.GetFinalizers()) == 0 && (grace == nil || *grace == 0)
}
