package registry

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

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
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
			ObservedGeneration: pod.Generation,
		}}
		return pod, nil
	})
	return err
}
