package policy_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// Pods of the project: two agents, and what its clusters run.
const (
	agent     = "10.77.0.21"
	neighbor  = "10.77.0.31"
	router    = "10.77.0.11"
	notifier  = "10.77.0.33"
	collector = "10.77.0.34"
	dnsPod    = "10.77.0.14"
	other     = "10.77.0.32" // without policies
)

// The policies are the ones that the provisioner and Terraform write.
func TestRun_EnforcesPoliciesOfAgentsAndTheirGateway(t *testing.T) {
	t.Parallel()
	objects := read(t, "../../../infra/gke/testdata/full.yaml", "")
	agentNamespace := objects[0].(*corev1.Namespace)
	agentNamespace.Labels[corev1.LabelMetadataName] = agentNamespace.Name
	objects = append(objects, read(t, "../../../terraform/cell/network.yaml", "agent-gateway")...)
	objects = append(objects,
		namespace("agent-gateway", nil), namespace("gmp-system", nil), namespace("kube-system", nil),
		namespace("neighbor", agentNamespace.Labels), namespace("other", nil),
		pod(agentNamespace.Name, "agent-0", "agent", agent), pod("neighbor", "agent-0", "agent", neighbor),
		pod("agent-gateway", "router", "agent-router", router),
		pod("agent-gateway", "notifier", "agent-notifier", notifier),
		pod("gmp-system", "collector", "collector", collector), pod("kube-system", "dns", "dns", dnsPod),
		pod("other", "other", "other", other),
	)
	check(t, enforce(t, objects...), []attempt{
		{name: "router to the front", protocol: "tcp", from: router, to: agent + ":8080", want: true},
		{name: "router to the agent's own port", protocol: "tcp", from: router, to: agent + ":8000"},
		{name: "collector to the front's metrics", protocol: "tcp", from: collector, to: agent + ":9091", want: true},
		{name: "collector to the front", protocol: "tcp", from: collector, to: agent + ":8080"},
		{name: "notifier to the front", protocol: "tcp", from: notifier, to: agent + ":8080"},
		{name: "neighbor to the front", protocol: "tcp", from: neighbor, to: agent + ":8080"},
		{name: "Google's front end to the front", protocol: "tcp", from: "35.191.0.10", to: agent + ":8080"},
		{name: "internet to the front", protocol: "tcp", from: "203.0.113.10", to: agent + ":8080"},
		{name: "kubelet to the front", protocol: "tcp", from: gateway, to: agent + ":8080", want: true},

		{name: "agent to the internet", protocol: "tcp", from: agent, to: "203.0.113.10:443", want: true},
		{name: "agent to the internet, QUIC", protocol: "udp", from: agent, to: "203.0.113.10:443", want: true},
		{name: "agent to the internet, mail", protocol: "tcp", from: agent, to: "203.0.113.10:25"},
		{name: "agent to the internet, ICMP", protocol: "icmp", from: agent, to: "203.0.113.10:0"},
		{name: "agent to the metadata server", protocol: "tcp", from: agent, to: "169.254.169.254:80"},
		{name: "agent to the VPC", protocol: "tcp", from: agent, to: "10.99.0.10:443"},
		{name: "agent to the kubelet", protocol: "tcp", from: agent, to: nodeAddress + ":10250"},
		{name: "agent to the API server", protocol: "tcp", from: agent, to: nodeAddress + ":443"},
		{name: "agent to its neighbor", protocol: "tcp", from: agent, to: neighbor + ":8080"},
		{name: "agent to the router", protocol: "tcp", from: agent, to: router + ":8080"},
		{name: "agent to the cache of names", protocol: "udp", from: agent, to: nodeDNS + ":53", want: true},
		{name: "agent to the cache of names, TCP", protocol: "tcp", from: agent, to: nodeDNS + ":53", want: true},
		{name: "agent to a pod of DNS", protocol: "udp", from: agent, to: dnsPod + ":53", want: true},
		{name: "agent to another pod's port 53", protocol: "udp", from: agent, to: other + ":53"},

		{
			name: "Google's front end to the router", protocol: "tcp", from: "35.191.0.10", to: router + ":8080",
			want: true,
		},
		{
			name: "Google's front end to the router's metrics", protocol: "tcp", from: "35.191.0.10",
			to: router + ":9090",
		},
		{name: "internet to the router", protocol: "tcp", from: "203.0.113.10", to: router + ":8080"},
		{name: "collector to the router's metrics", protocol: "tcp", from: collector, to: router + ":9090", want: true},
		{name: "other pod to the router", protocol: "tcp", from: other, to: router + ":8080"},
		{name: "router to the API server", protocol: "tcp", from: router, to: nodeAddress + ":443", want: true},
		{name: "router to the kubelet", protocol: "tcp", from: router, to: nodeAddress + ":10250"},
		{name: "router to the internet", protocol: "tcp", from: router, to: "203.0.113.10:443"},
		{name: "router to another pod", protocol: "tcp", from: router, to: other + ":8080"},
		{name: "router to the metadata server", protocol: "tcp", from: router, to: "169.254.169.254:80"},

		{name: "notifier to Pub/Sub", protocol: "tcp", from: notifier, to: "203.0.113.10:443", want: true},
		{name: "notifier to the API server", protocol: "tcp", from: notifier, to: nodeAddress + ":443", want: true},
		{
			name: "notifier to the metadata server", protocol: "tcp", from: notifier, to: "169.254.169.254:80",
			want: true,
		},
		{name: "notifier to the internet, HTTP", protocol: "tcp", from: notifier, to: "203.0.113.10:80"},
		{name: "router to the notifier", protocol: "tcp", from: router, to: notifier + ":8080", want: true},
		{name: "notifier to the router", protocol: "tcp", from: notifier, to: router + ":8080"},
		{name: "agent to the notifier", protocol: "tcp", from: agent, to: notifier + ":8080"},
	})
}

// read returns the namespaces and policies of a file.
func read(t *testing.T, name, gatewayNamespace string) []runtime.Object {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("${gateway.namespace}"), []byte(gatewayNamespace))
	var objects []runtime.Object
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(b)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if err != nil {
			continue // a kind that this test does not need
		}
		switch object.(type) {
		case *corev1.Namespace, *networkingv1.NetworkPolicy:
			objects = append(objects, object)
		}
	}
	if len(objects) == 0 {
		t.Fatalf("%s has no policies", name)
	}
	return objects
}
