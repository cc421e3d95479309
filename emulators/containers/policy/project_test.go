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
		{"router to the front", "tcp", router, agent + ":8080", true},
		{"router to the agent's own port", "tcp", router, agent + ":8000", false},
		{"collector to the front's metrics", "tcp", collector, agent + ":9091", true},
		{"collector to the front", "tcp", collector, agent + ":8080", false},
		{"notifier to the front", "tcp", notifier, agent + ":8080", false},
		{"neighbor to the front", "tcp", neighbor, agent + ":8080", false},
		{"Google's front end to the front", "tcp", "35.191.0.10", agent + ":8080", false},
		{"internet to the front", "tcp", "203.0.113.10", agent + ":8080", false},
		{"kubelet to the front", "tcp", gateway, agent + ":8080", true},

		{"agent to the internet", "tcp", agent, "203.0.113.10:443", true},
		{"agent to the internet, QUIC", "udp", agent, "203.0.113.10:443", true},
		{"agent to the internet, mail", "tcp", agent, "203.0.113.10:25", false},
		{"agent to the internet, ICMP", "icmp", agent, "203.0.113.10:0", false},
		{"agent to the metadata server", "tcp", agent, "169.254.169.254:80", false},
		{"agent to the VPC", "tcp", agent, "10.99.0.10:443", false},
		{"agent to the kubelet", "tcp", agent, nodeAddress + ":10250", false},
		{"agent to the API server", "tcp", agent, nodeAddress + ":443", false},
		{"agent to its neighbor", "tcp", agent, neighbor + ":8080", false},
		{"agent to the router", "tcp", agent, router + ":8080", false},
		{"agent to the cache of names", "udp", agent, nodeDNS + ":53", true},
		{"agent to the cache of names, TCP", "tcp", agent, nodeDNS + ":53", true},
		{"agent to a pod of DNS", "udp", agent, dnsPod + ":53", true},
		{"agent to another pod's port 53", "udp", agent, other + ":53", false},

		{"Google's front end to the router", "tcp", "35.191.0.10", router + ":8080", true},
		{"Google's front end to the router's metrics", "tcp", "35.191.0.10", router + ":9090", false},
		{"internet to the router", "tcp", "203.0.113.10", router + ":8080", false},
		{"collector to the router's metrics", "tcp", collector, router + ":9090", true},
		{"other pod to the router", "tcp", other, router + ":8080", false},
		{"router to the API server", "tcp", router, nodeAddress + ":443", true},
		{"router to the kubelet", "tcp", router, nodeAddress + ":10250", false},
		{"router to the internet", "tcp", router, "203.0.113.10:443", false},
		{"router to another pod", "tcp", router, other + ":8080", false},
		{"router to the metadata server", "tcp", router, "169.254.169.254:80", false},

		{"notifier to Pub/Sub", "tcp", notifier, "203.0.113.10:443", true},
		{"notifier to the API server", "tcp", notifier, nodeAddress + ":443", true},
		{"notifier to the metadata server", "tcp", notifier, "169.254.169.254:80", true},
		{"notifier to the internet, HTTP", "tcp", notifier, "203.0.113.10:80", false},
		{"router to the notifier", "tcp", router, notifier + ":8080", false},
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
