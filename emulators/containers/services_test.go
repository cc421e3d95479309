package main

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWays_LeadToPodsThatAreReady: a Service is known by its namespace, and a port by its name and protocol.
func TestWays_LeadToPodsThatAreReady(t *testing.T) {
	t.Parallel()
	service := func(namespace, name, address string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.ServiceSpec{ClusterIP: address, Ports: ports},
		}
	}
	dns := corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}
	tls := corev1.ServicePort{Name: "tls", Port: 443, Protocol: corev1.ProtocolTCP}
	endpoint := func(address string, ready bool) discoveryv1.Endpoint {
		return discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		}
	}
	slice := func(namespace, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Labels: map[string]string{discoveryv1.LabelServiceName: service},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
			Ports: []discoveryv1.EndpointPort{
				{Name: new("dns"), Port: new(int32(5353))}, {Name: new("tls"), Port: new(int32(8443))},
			},
		}
	}
	got := ways([]*corev1.Service{
		service("default", "kubernetes", "10.96.0.1", tls),
		service("gateway", "gate", "10.96.0.53", dns, tls),
		service("gateway", "headless", "None", tls),
		service("gateway", "starts", "10.96.0.54", tls),
		service("other", "gate", "10.96.0.55", tls),
	}, []*discoveryv1.EndpointSlice{
		slice("default", "kubernetes", endpoint("192.0.2.1", true)),
		slice("gateway", "gate", endpoint("10.77.0.4", false), endpoint("10.77.0.10", true)),
		slice("gateway", "gate", endpoint("10.77.0.9", true)),
		slice("gateway", "headless", endpoint("10.77.0.6", true)),
		slice("gateway", "starts", endpoint("10.77.0.7", false)),
		slice("other", "gate", endpoint("10.77.0.8", true)),
	})
	var texts []string
	for _, w := range got {
		texts = append(texts, fmt.Sprint(w.protocol, " ", w.from, " ", w.to))
	}
	want := []string{
		"6 10.96.0.1:443 10.77.255.1:443",
		"17 10.96.0.53:53 10.77.0.9:5353",
		"6 10.96.0.53:443 10.77.0.9:8443",
		"6 10.96.0.55:443 10.77.0.8:8443",
	}
	if !slices.Equal(texts, want) {
		t.Errorf("ways = %q, want %q", texts, want)
	}
}
