package controllers

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/emulators/kubernetesemu/store"
)

// syncEndpoints keeps one EndpointSlice with the pods of a service.
func (c *Controllers) syncEndpoints(key store.Key) error {
	service, ok := read[*corev1.Service](c, key)
	if !ok || service.DeletionTimestamp != nil || len(service.Spec.Selector) == 0 {
		return nil
	}
	wanted := c.sliceOf(service)
	for _, slice := range list[*discoveryv1.EndpointSlice](c, key.Namespace) {
		if !metav1.IsControlledBy(slice, service) {
			continue
		}
		if slice.DeletionTimestamp != nil || equality.Semantic.DeepEqual(slice.Endpoints, wanted.Endpoints) &&
			equality.Semantic.DeepEqual(slice.Ports, wanted.Ports) && maps.Equal(slice.Labels, wanted.Labels) {
			return nil
		}
		return change(c, endpoints, slice, "", func(live *discoveryv1.EndpointSlice) {
			live.Endpoints, live.Ports, live.Labels = wanted.Endpoints, wanted.Ports, wanted.Labels
		})
	}
	err := create(c, endpoints, wanted)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}

// sliceOf returns the slice that a service should have.
func (c *Controllers) sliceOf(service *corev1.Service) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			GenerateName: service.Name + "-", Namespace: service.Namespace, Labels: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(service, corev1.SchemeGroupVersion.WithKind("Service")),
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	maps.Copy(slice.Labels, service.Labels)
	slice.Labels[discoveryv1.LabelServiceName] = service.Name
	slice.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
	if service.Spec.ClusterIP == corev1.ClusterIPNone {
		slice.Labels[corev1.IsHeadlessService] = ""
	}
	selector := labels.SelectorFromSet(service.Spec.Selector)
	for _, pod := range list[*corev1.Pod](c, service.Namespace) {
		if pod.Status.PodIP == "" || !selector.Matches(labels.Set(pod.Labels)) || pod.Status.Phase == corev1.PodFailed ||
			pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		slice.Endpoints = append(slice.Endpoints, endpointOf(service, pod))
		if len(slice.Ports) == 0 {
			slice.Ports = portsOf(service, pod)
		}
	}
	return slice
}

func endpointOf(service *corev1.Service, pod *corev1.Pod) discoveryv1.Endpoint {
	serving, terminating := isReady(pod), pod.DeletionTimestamp != nil
	ready := service.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{
		Addresses:  []string{pod.Status.PodIP},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		NodeName:   &pod.Spec.NodeName,
	}
	if pod.Spec.Hostname != "" && pod.Spec.Subdomain == service.Name {
		e.Hostname = &pod.Spec.Hostname
	}
	return e
}

func portsOf(service *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	var ports []discoveryv1.EndpointPort
	for _, p := range service.Spec.Ports {
		if number := targetPort(pod, p.TargetPort); number > 0 {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: &p.Name, Port: &number, Protocol: &p.Protocol, AppProtocol: p.AppProtocol,
			})
		}
	}
	return ports
}

// targetPort returns a port of a pod by number or name; 0 if it has none.
func targetPort(pod *corev1.Pod, target intstr.IntOrString) int32 {
	if target.Type == intstr.Int {
		return target.IntVal
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, p := range containers[i].Ports {
				if p.Name == target.StrVal {
					return p.ContainerPort
				}
			}
		}
	}
	return 0
}
