package gke

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
)

// podName is the name that the StatefulSet gives the agent's only pod.
const podName = agentName + "-0"

// portName is the name of the front's port.
const portName = "http"

// service makes the cluster publish the pod's address, and whether the pod is Ready, in an EndpointSlice with the
// Service's labels. The router reads those: one label names the one hostname that leads to the agent, others say who
// starts an agent without a pod. An agent that requests start has them all the time, so that no Service changes when it
// falls asleep or wakes. The Service is headless: it has no address and programs no node.
//
// The gate reads what the agent may reach in an annotation.
func (b blueprint) service() object {
	s := &corev1.Service{
		TypeMeta: typed("v1", "Service"), ObjectMeta: b.wayOut(agentName),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, Selector: podLabels(),
			Ports: []corev1.ServicePort{{
				Name: portName, Protocol: corev1.ProtocolTCP, Port: dataplane.FrontPort,
				TargetPort: intstr.FromInt32(dataplane.FrontPort),
			}},
		},
	}
	s.Labels[dataplane.LabelSlug] = b.agent.Slug
	switch {
	case b.agent.StartsOnRequest():
		s.Labels[dataplane.LabelStarter] = dataplane.StarterRequest
		if len(validation.IsValidLabelValue(b.agent.OrganizationID)) == 0 {
			s.Labels[labelOrganization] = b.agent.OrganizationID
		}
		maps.Copy(s.Labels, dataplane.PublicPathLabels(slices.Concat(b.image.PublicPaths, b.agent.PublicPaths)))
	case !b.agent.WantsPod():
		s.Labels[dataplane.LabelStarter] = dataplane.StarterOwner
	}
	if p, ok := b.egressPolicy(); ok {
		s.Annotations[egress.Annotation] = p.Encode()
	}
	return s
}

// statefulSet runs the agent's pod, or none. A StatefulSet never runs two pods of one name concurrently, so the
// volume has one writer even when a node is lost.
func (b blueprint) statefulSet() *appsv1.StatefulSet {
	replicas := int32(0)
	if b.agent.RunsPod() {
		replicas = 1
	}
	return &appsv1.StatefulSet{
		TypeMeta: typed("apps/v1", "StatefulSet"), ObjectMeta: b.versioned(agentName),
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: agentName,
			Selector: &metav1.LabelSelector{MatchLabels: podLabels()},
			Template: b.pod(),
			// The default, OrderedReady, does not replace a pod until it is ready. A fix would never reach a broken
			// agent. With one pod there is no order to keep.
			PodManagementPolicy:  appsv1.ParallelPodManagement,
			UpdateStrategy:       appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType},
			RevisionHistoryLimit: new(int32(1)), // revisions are never rolled back
		},
	}
}
