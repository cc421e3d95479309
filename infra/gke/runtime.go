package gke

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// podName is the name that the StatefulSet gives the agent's only pod.
const podName = agentName + "-0"

// portName is the name of the port on which the agent serves.
const portName = "http"

// service is where the route leads.
func (b blueprint) service() object {
	return &corev1.Service{
		TypeMeta: typed("v1", "Service"), ObjectMeta: b.named(agentName),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: podLabels(),
			Ports: []corev1.ServicePort{{Name: portName, Protocol: corev1.ProtocolTCP, Port: 80,
				TargetPort: intstr.FromString(portName)}},
		},
	}
}

// statefulSet runs the agent's pod, or none. Of a StatefulSet's pods no two of one name ever run at once, so that the
// volume has one writer even when a node is lost.
func (b blueprint) statefulSet() object {
	replicas := int32(0)
	if b.agent.Runs() {
		replicas = 1
	}
	return &appsv1.StatefulSet{
		TypeMeta: typed("apps/v1", "StatefulSet"), ObjectMeta: b.named(agentName),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: agentName,
			Selector: &metav1.LabelSelector{MatchLabels: podLabels()},
			Template: b.pod(),
			// The default, OrderedReady, waits for a pod that will never be ready before it replaces it: what mends a
			// broken agent would not reach it. With one pod there is no order to keep.
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: new(int32(1)), // nobody rolls back
		},
	}
}
