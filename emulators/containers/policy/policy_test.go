package policy_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// attempt is a connection, or a packet and its answer. The port of ICMP is 0.
type attempt struct {
	name, protocol, from, to string
	want                     bool
}

func check(t *testing.T, e *enforced, attempts []attempt) {
	t.Helper()
	for _, a := range attempts {
		t.Run(a.name, func(t *testing.T) {
			if got := e.allows(t, a.protocol, a.from, a.to); got != a.want {
				t.Errorf("%s: got allowed %t, want %t", flow(a.protocol, a.from, a.to), got, a.want)
			}
		})
	}
	for _, a := range attempts { // a verdict must be what the kernel does
		if !a.want && e.reached(a.protocol, a.from, a.to) {
			t.Errorf("%s: reached its server", flow(a.protocol, a.from, a.to))
		}
	}
}

// Pods of clients.
const (
	web      = "10.77.0.11" // alpha, app=web
	batch    = "10.77.0.12" // alpha, app=batch
	betaWeb  = "10.77.0.13" // beta, app=web
	locked   = "10.77.0.14" // alpha, sends nothing
	limited  = "10.77.0.15" // alpha, sends to the internet and to DNS
	reused   = "10.77.0.16" // beta; an ended pod of alpha with app=web had the address
	stranger = "10.77.0.17" // not in the cluster
)

// Pods of servers.
const (
	unselected  = "10.77.0.21"
	byPod       = "10.77.0.22"
	byNamespace = "10.77.0.23"
	byBoth      = "10.77.0.24"
	byBlock     = "10.77.0.25"
	closed      = "10.77.0.26"
)

func TestRun_DecidesByPolicies(t *testing.T) {
	t.Parallel()
	check(t, enforce(t, cluster()...), []attempt{
		{name: "no policy", protocol: "tcp", from: batch, to: unselected + ":8080", want: true},
		{name: "no policy, UDP", protocol: "udp", from: batch, to: unselected + ":53", want: true},
		{name: "no policy, ICMP", protocol: "icmp", from: batch, to: unselected + ":0", want: true},
		{name: "no policy, from outside", protocol: "tcp", from: "203.0.113.10", to: unselected + ":8080", want: true},

		{name: "pod selected", protocol: "tcp", from: web, to: byPod + ":8080", want: true},
		{name: "another pod", protocol: "tcp", from: batch, to: byPod + ":8080"},
		{name: "pod selected, of another namespace", protocol: "tcp", from: betaWeb, to: byPod + ":8080"},
		{name: "pod selected, another port", protocol: "tcp", from: web, to: byPod + ":9090"},
		{name: "pod selected, another protocol", protocol: "udp", from: web, to: byPod + ":8080"},
		{name: "pod selected, ICMP in addition to ports", protocol: "icmp", from: web, to: byPod + ":0"},
		{
			name: "pod selected by the address of a pod that has ended", protocol: "tcp", from: reused,
			to: byPod + ":8080",
		},
		{name: "no pod of the cluster", protocol: "tcp", from: stranger, to: unselected + ":8080"},

		{
			name: "namespace selected, port by name", protocol: "tcp", from: betaWeb, to: byNamespace + ":8080",
			want: true,
		},
		{name: "another namespace", protocol: "tcp", from: web, to: byNamespace + ":8080"},
		{name: "namespace selected, port of no name", protocol: "tcp", from: betaWeb, to: byNamespace + ":9090"},

		{name: "namespace and pod selected", protocol: "udp", from: betaWeb, to: byBoth + ":53", want: true},
		{name: "pod selected only", protocol: "udp", from: web, to: byBoth + ":53"},
		{name: "namespace selected only", protocol: "udp", from: reused, to: byBoth + ":53"},
		{name: "namespace and pod selected, TCP", protocol: "tcp", from: betaWeb, to: byBoth + ":53"},

		{name: "block", protocol: "tcp", from: "203.0.113.10", to: byBlock + ":8080", want: true},
		{name: "block, ICMP without ports", protocol: "icmp", from: "203.0.113.10", to: byBlock + ":0", want: true},
		{name: "block, except", protocol: "tcp", from: "203.0.113.20", to: byBlock + ":8080"},
		{name: "another block", protocol: "tcp", from: "35.191.0.10", to: byBlock + ":8080"},
		{name: "pod outside the block", protocol: "tcp", from: web, to: byBlock + ":8080"},

		{name: "default deny of ingress, TCP", protocol: "tcp", from: web, to: closed + ":8080"},
		{name: "default deny of ingress, UDP", protocol: "udp", from: web, to: closed + ":53"},
		{name: "default deny of ingress, ICMP", protocol: "icmp", from: web, to: closed + ":0"},
		{name: "default deny of ingress, from outside", protocol: "tcp", from: "35.191.0.10", to: closed + ":8080"},
		{name: "default deny of egress, to a pod", protocol: "tcp", from: locked, to: unselected + ":8080"},
		{name: "default deny of egress, to the internet", protocol: "tcp", from: locked, to: "203.0.113.10:443"},
		{name: "default deny of egress, to the node", protocol: "tcp", from: locked, to: nodeAddress + ":10250"},
		{name: "default deny of egress, to DNS", protocol: "udp", from: locked, to: nodeDNS + ":53"},

		{name: "egress to a block", protocol: "tcp", from: limited, to: "203.0.113.10:443", want: true},
		{name: "egress to a block, another port", protocol: "tcp", from: limited, to: "203.0.113.10:25"},
		{name: "egress, except", protocol: "tcp", from: limited, to: "10.99.0.10:443"},
		{name: "egress, except the metadata server", protocol: "tcp", from: limited, to: "169.254.169.254:443"},
		{name: "egress, except the node", protocol: "tcp", from: limited, to: nodeAddress + ":443"},
		{name: "egress to DNS on the node", protocol: "udp", from: limited, to: nodeDNS + ":53", want: true},
		{name: "egress to DNS on the node, TCP", protocol: "tcp", from: limited, to: nodeDNS + ":53"},

		{
			name: "the node to a pod that accepts nothing", protocol: "tcp", from: gateway, to: closed + ":8080",
			want: true,
		},
		{
			name: "the node to a pod that sends nothing", protocol: "udp", from: nodeAddress, to: locked + ":53",
			want: true,
		},
		{name: "the node to itself", protocol: "tcp", from: gateway, to: gateway + ":80", want: true},
	})
}

func cluster() []runtime.Object {
	tcp, udp := corev1.ProtocolTCP, corev1.ProtocolUDP
	ended := pod("alpha", "ended", "web", reused)
	ended.Status.Phase = corev1.PodSucceeded
	return []runtime.Object{
		namespace("alpha", nil), namespace("beta", nil), ended,
		pod("alpha", "web", "web", web), pod("alpha", "batch", "batch", batch), pod("beta", "web", "web", betaWeb),
		pod("alpha", "locked", "locked", locked), pod("alpha", "limited", "limited", limited),
		pod("beta", "reused", "other", reused),
		pod("alpha", "unselected", "unselected", unselected), pod("alpha", "by-pod", "by-pod", byPod),
		pod("alpha", "by-namespace", "by-namespace", byNamespace), pod("alpha", "by-both", "by-both", byBoth),
		pod("alpha", "by-block", "by-block", byBlock), pod("alpha", "closed", "closed", closed),

		ingress("by-pod", ports(tcp, intstr.FromInt32(8080)), networkingv1.NetworkPolicyPeer{PodSelector: app("web")}),
		ingress("by-namespace", ports(tcp, intstr.FromString("http")),
			networkingv1.NetworkPolicyPeer{NamespaceSelector: named("beta")}),
		ingress("by-both", ports(udp, intstr.FromInt32(53)),
			networkingv1.NetworkPolicyPeer{NamespaceSelector: named("beta"), PodSelector: app("web")}),
		ingress("by-block", nil, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{
			CIDR: "203.0.113.0/24", Except: []string{"203.0.113.20/32"},
		}}),
		networkPolicy("closed", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		}),
		networkPolicy("locked", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		}),
		networkPolicy("limited", networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
			Egress: []networkingv1.NetworkPolicyEgressRule{
				{Ports: ports(tcp, intstr.FromInt32(443)), To: []networkingv1.NetworkPolicyPeer{{
					IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "169.254.0.0/16"}},
				}}},
				{Ports: ports(udp, intstr.FromInt32(53)), To: []networkingv1.NetworkPolicyPeer{{
					IPBlock: &networkingv1.IPBlock{CIDR: nodeDNS + "/32"},
				}}},
			},
		}),
	}
}

func namespace(name string, labels map[string]string) *corev1.Namespace {
	labels = maps.Clone(labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelMetadataName] = name
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func pod(namespace, name, app, addr string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{"app": app, "app.kubernetes.io/name": app},
		},
		Spec: corev1.PodSpec{NodeName: nodeName, Containers: []corev1.Container{{
			Name: "main", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: addr}}},
	}
}

// networkPolicy selects the pods of namespace alpha whose label app is its name.
func networkPolicy(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	spec.PodSelector = *app(name)
	return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "alpha", Name: name}, Spec: spec}
}

func ingress(
	name string, ports []networkingv1.NetworkPolicyPort, from networkingv1.NetworkPolicyPeer,
) *networkingv1.NetworkPolicy {
	return networkPolicy(name, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			Ports: ports, From: []networkingv1.NetworkPolicyPeer{from},
		}},
	})
}

func ports(protocol corev1.Protocol, port intstr.IntOrString) []networkingv1.NetworkPolicyPort {
	return []networkingv1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}
}

func app(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

func named(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{namespace},
	}}}
}
