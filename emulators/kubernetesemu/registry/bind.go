package registry

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/kubernetesemu/store"
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
