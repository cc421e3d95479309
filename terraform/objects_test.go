//go:build unix

package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/terraform/cell"
)

// object decodes the object of a kind and name. Fields that the type does not have fail the test.
func object[T any](t *testing.T, kind, name string) T {
	t.Helper()
	var typed T
	for _, o := range cellObjects(t) {
		if o.GetKind() != kind || o.GetName() != name {
			continue
		}
		b, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(b))
		d.DisallowUnknownFields()
		if err := d.Decode(&typed); err != nil {
			t.Fatalf("%s %s: %v", kind, name, err)
		}
		return typed
	}
	t.Fatalf("the cell has no %s %s", kind, name)
	return typed
}

// ports are the ports of a Deployment's only container, by name.
func ports(d appsv1.Deployment) map[string]int32 {
	found := map[string]int32{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		found[p.Name] = p.ContainerPort
	}
	return found
}

// TestGateway_LeadsToTheRouter follows a request from the listener to the router's port.
func TestGateway_LeadsToTheRouter(t *testing.T) {
	t.Parallel()
	const hostname = "*.cell.agents.example.net"
	gateway := object[gatewayv1.Gateway](t, "Gateway", cell.GatewayName)
	route := object[gatewayv1.HTTPRoute](t, "HTTPRoute", cell.GatewayName)
	service := object[corev1.Service](t, "Service", "agent-router")
	router := object[appsv1.Deployment](t, "Deployment", "agent-router")
	listener, backend := gateway.Spec.Listeners[0], route.Spec.Rules[0].BackendRefs[0]
	for what, row := range map[string]struct{ got, want any }{
		"number of listeners":       {got: len(gateway.Spec.Listeners), want: 1},
		"protocol":                  {got: listener.Protocol, want: gatewayv1.HTTPSProtocolType},
		"hostname of the listener":  {got: string(*listener.Hostname), want: hostname},
		"namespaces of routes":      {got: *listener.AllowedRoutes.Namespaces.From, want: gatewayv1.NamespacesFromSame},
		"hostname of the route":     {got: string(route.Spec.Hostnames[0]), want: hostname},
		"Gateway of the route":      {got: string(route.Spec.ParentRefs[0].Name), want: gateway.Name},
		"namespace of the route":    {got: route.Namespace, want: gateway.Namespace},
		"service of the route":      {got: string(backend.Name), want: service.Name},
		"port of the route":         {got: *backend.Port, want: service.Spec.Ports[0].Port},
		"namespace of the service":  {got: service.Namespace, want: gateway.Namespace},
		"port of the router":        {got: ports(router)[service.Spec.Ports[0].TargetPort.StrVal], want: int32(8080)},
		"metrics port of the agent": {got: ports(router)["metrics"], want: int32(dataplane.MetricsPort)},
	} {
		if row.got != row.want {
			t.Errorf("%s = %v, want %v", what, row.got, row.want)
		}
	}
	if !selects(t, metav1.LabelSelector{MatchLabels: service.Spec.Selector}, router) {
		t.Error("the Service does not select the router's pods")
	}
}

func selects(t *testing.T, selector metav1.LabelSelector, d appsv1.Deployment) bool {
	t.Helper()
	s, err := metav1.LabelSelectorAsSelector(&selector)
	if err != nil {
		t.Fatal(err)
	}
	return s.Matches(labels.Set(d.Spec.Template.Labels))
}

// TestPolicies_OfGoogleApplyToTheGatewayAndTheRouter holds that each policy names what exists, in its namespace. A
// policy about nothing is no error on GKE, and neither is one that names no policy of Cloud Armor or TLS.
func TestPolicies_OfGoogleApplyToTheGatewayAndTheRouter(t *testing.T) {
	t.Parallel()
	const router, gateway = "/Service/agent-router", "gateway.networking.k8s.io/Gateway/agents"
	got := map[string]string{}
	for _, o := range cellObjects(t) {
		target, found, _ := unstructured.NestedStringMap(o.Object, "spec", "targetRef")
		if found {
			got[o.GetKind()] = target["group"] + "/" + target["kind"] + "/" + target["name"]
		}
		if found && o.GetNamespace() != cell.GatewayNamespace {
			t.Errorf("%s is in %s, want it in %s", o.GetKind(), o.GetNamespace(), cell.GatewayNamespace)
		}
	}
	want := map[string]string{"HealthCheckPolicy": router, "GCPBackendPolicy": router, "GCPGatewayPolicy": gateway}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("targets of policies (-want +got):\n%s", diff)
	}
	m := load(t, map[string]cty.Value{"cloud_armor": cty.True})
	rendered := m.local(t, "cell_objects").GetAttr("us-central1-1").AsString()
	for what, name := range map[string]string{
		"sslPolicy":      text(t, m.resources(t, "google_compute_ssl_policy")["edge"], "name"),
		"securityPolicy": text(t, m.resources(t, "google_compute_security_policy")[`edge["agents"]`], "name"),
	} {
		if !strings.Contains(rendered, "    "+what+": "+name+"\n") {
			t.Errorf("no policy of the cell has %s: %s", what, name)
		}
	}
	without := load(t, nil).local(t, "cell_objects").GetAttr("us-central1-1").AsString()
	if strings.Contains(without, "securityPolicy:") {
		t.Error("a policy of the cell names one of Cloud Armor that does not exist")
	}
}

// TestPolicies_ApplyToTheRouter holds that the cluster's own policies select the router and the notifier.
func TestPolicies_ApplyToTheRouter(t *testing.T) {
	t.Parallel()
	router := object[appsv1.Deployment](t, "Deployment", "agent-router")
	budget := object[policyv1.PodDisruptionBudget](t, "PodDisruptionBudget", "agent-router")
	if !selects(t, *budget.Spec.Selector, router) || budget.Spec.MinAvailable.IntValue() != 2 {
		t.Errorf("disruption budget = %+v, want 2 of the router's pods", budget.Spec)
	}
	scaler := object[autoscalingv2.HorizontalPodAutoscaler](t, "HorizontalPodAutoscaler", "agent-router")
	if scaler.Spec.ScaleTargetRef.Name != router.Name || *scaler.Spec.MinReplicas < 3 || router.Spec.Replicas != nil {
		t.Errorf("the autoscaler keeps %d of %s, and the Deployment says %v: want at least 3 routers, set by the "+
			"autoscaler alone", *scaler.Spec.MinReplicas, scaler.Spec.ScaleTargetRef.Name, router.Spec.Replicas)
	}
	spread := router.Spec.Template.Spec.TopologySpreadConstraints[0]
	if spread.TopologyKey != corev1.LabelTopologyZone || spread.WhenUnsatisfiable != corev1.DoNotSchedule ||
		spread.MinDomains == nil || *spread.MinDomains != 2 {
		t.Errorf("the routers spread by %+v, want over two zones at least", spread)
	}
	for _, name := range []string{"agent-router", "agent-notifier"} {
		policy := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", name)
		if !selects(t, policy.Spec.PodSelector, object[appsv1.Deployment](t, "Deployment", name)) {
			t.Errorf("the NetworkPolicy %s does not select the Deployment's pods", name)
		}
	}
}

// TestRouter_IsReachedByTheLoadBalancerAndTheCollectorOnly holds the router's network policy to the design.
func TestRouter_IsReachedByTheLoadBalancerAndTheCollectorOnly(t *testing.T) {
	t.Parallel()
	policy := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-router")
	var got []string
	for _, rule := range policy.Spec.Ingress {
		for _, from := range rule.From {
			source := fmt.Sprint(from.NamespaceSelector)
			if from.IPBlock != nil {
				source = from.IPBlock.CIDR
			} else if e := from.NamespaceSelector.MatchExpressions; len(e) == 1 {
				source = fmt.Sprint(e[0].Values)
			}
			for _, p := range rule.Ports {
				got = append(got, fmt.Sprint(source, " to ", p.Port.IntValue()))
			}
		}
	}
	want := []string{
		"35.191.0.0/16 to 8080", "130.211.0.0/22 to 8080", "[gmp-system gke-gmp-system] to 9090",
	}
	if !slices.Equal(got, want) {
		t.Errorf("sources = %q, want %q", got, want)
	}
}

// TestDeployments_HaveTheEnvironmentOfTheirBinaries compares the variables with what the binaries read.
func TestDeployments_HaveTheEnvironmentOfTheirBinaries(t *testing.T) {
	t.Parallel()
	for deployment, binary := range map[string]string{"agent-router": "router", "agent-notifier": "notifier"} {
		container := object[appsv1.Deployment](t, "Deployment", deployment).Spec.Template.Spec.Containers[0]
		if want := "/ko-app/" + binary; container.Command[0] != want {
			t.Errorf("%s runs %s, want %s", deployment, container.Command[0], want)
		}
		read, set := config.Variables(binary), map[string]bool{}
		for _, e := range container.Env {
			set[e.Name] = true
			if _, is := read[e.Name]; !is && e.Name != "GOMEMLIMIT" {
				t.Errorf("%s sets %s, which its binary does not read", deployment, e.Name)
			}
		}
		for name, required := range read {
			if required && !set[name] {
				t.Errorf("%s does not set %s, without which its binary does not start", deployment, name)
			}
		}
	}
}

// checkPods creates a pod of every Deployment: its namespace admits it, and the classes that it names exist.
func checkPods(ctx context.Context, t *testing.T, f cellFixture) {
	t.Helper()
	found := 0
	for _, o := range cellObjects(t) {
		if o.GetKind() != "Deployment" {
			continue
		}
		found++
		d := object[appsv1.Deployment](t, "Deployment", o.GetName())
		pod := corev1.Pod{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: d.Spec.Template.ObjectMeta,
			Spec: d.Spec.Template.Spec,
		}
		pod.Name = d.Name
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
		if err != nil {
			t.Fatal(err)
		}
		_, err = at(f.admin, "pods", d.Namespace).Create(ctx, &unstructured.Unstructured{Object: content},
			metav1.CreateOptions{DryRun: dryRun()})
		if err != nil {
			t.Errorf("a pod of %s is refused: %v", d.Name, err)
		}
	}
	if found != 5 {
		t.Errorf("found %d Deployments, want the router, the notifier, the canary and two placeholders", found)
	}
}
