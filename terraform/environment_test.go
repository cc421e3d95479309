//go:build unix

package terraform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
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

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/terraform/cell"
)

// secretsOf are the secrets of the control plane that a function needs, by environment variable.
func secretsOf(access function.Access, needs []function.Need) map[string]string {
	held := map[string]string{}
	if access.Authenticates() {
		// Terraform generates it: the version is known once it is written.
		held["API_KEY_PEPPER"] = "secret prod-api-key-pepper at (unknown)"
	}
	if slices.Contains(needs, function.WebhookSign) {
		held["WEBHOOK_SIGNING_KEY"] = "secret prod-webhook-signing-key at (unknown)"
	}
	if slices.Contains(needs, function.HandoffSign) {
		held["HANDOFF_SIGNING_KEY"] = "secret prod-handoff-signing-key at latest"
	}
	if slices.Contains(needs, function.Payments) {
		held["STRIPE_API_KEY"] = "secret prod-stripe-api-key at latest"
		held["STRIPE_WEBHOOK_SECRET"] = "secret prod-stripe-webhook-secret at latest"
	}
	return held
}

// TestSecrets_AreHeldByServicesThatNeedThem compares the secrets in the environment of each service, and those that its
// account may read, with the needs of its functions. Only services that authenticate callers need the pepper, which no
// worker does. Behind the load balancer, every service of routes needs the load balancer's secret.
func TestSecrets_AreHeldByServicesThatNeedThem(t *testing.T) {
	t.Parallel()
	everyTopologyWith(t, map[string]cty.Value{
		"app_url": cty.StringVal("https://app.example.com"), "handoff_public_keys": cty.StringVal(`{"keys": []}`),
		"provided_secrets": cty.SetVal([]cty.Value{
			cty.StringVal("HANDOFF_SIGNING_KEY"), cty.StringVal("STRIPE_API_KEY"),
			cty.StringVal("STRIPE_WEBHOOK_SECRET"),
		}),
	}, func(t *testing.T, m *module) {
		needed := map[string]map[string]string{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			needed[r.Name] = secretsOf(r.Access, r.Needs)
			if m.variable(t, "domain").AsString() != "" {
				needed[r.Name]["EDGE_SECRETS"] = "secret prod-edge-secrets at (unknown)"
			}
		}
		for _, w := range functions.Workers(functions.Dependencies{}) {
			needed[w.Name] = secretsOf(function.Public, w.Needs)
		}
		want, set, readers := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for service, s := range m.local(t, "services").AsValueMap() {
			for _, member := range texts(t, s.GetAttr("members")) {
				for name, secret := range needed[member] {
					want[service+": "+name+" is "+secret] = true
				}
			}
		}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			service := strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)
			for name, value := range variables(t, s) {
				if strings.HasPrefix(value, "secret ") {
					set[service+": "+name+" is "+value] = true
					id := strings.Fields(value)[1]
					readers[`google_service_account.service["`+service+`"].member reads `+id] = true
				}
			}
		}
		if diff := cmp.Diff(want, set); diff != "" {
			t.Errorf("secrets of services (-want +got):\n%s", diff)
		}
		readers[gateIdentity+" reads prod-gate-ca"] = true
		granted := map[string]bool{}
		for _, g := range m.resources(t, "google_secret_manager_secret_iam_member") {
			granted[text(t, g, "member")+" reads "+text(t, g, "secret_id")] = true
			if role := text(t, g, "role"); role != "roles/secretmanager.secretAccessor" {
				t.Errorf("%s has %s on %s", text(t, g, "member"), role, text(t, g, "secret_id"))
			}
		}
		if diff := cmp.Diff(readers, granted); diff != "" {
			t.Errorf("accounts that may read secrets (-want +got):\n%s", diff)
		}
	})
}

// TestEnvironment_EqualsConfiguration compares the environment of each service with the variables that its binary
// reads.
func TestEnvironment_EqualsConfiguration(t *testing.T) {
	t.Parallel()
	// Variables that Cloud Run sets, and variables for networks other than Google's.
	notSet := []string{
		"PORT", "K_REVISION", "LISTEN_HOST", "AGENT_SCHEME", "AGENT_URL_PORT",
		"AGENT_ROUTER_ADDRESS", "PUSH_ISSUER", "STRIPE_URL", "WEBHOOK_ALLOW_LOOPBACK",
	}
	everyTopology(t, func(t *testing.T, m *module) {
		secret := m.local(t, "secret_environments").AsValueMap()
		settable := m.local(t, "common_environment").AsValueMap()
		maps.Copy(settable, m.local(t, "worker_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "optional_secrets").AsValueMap())
		maps.Copy(settable, m.local(t, "payments_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "console_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "client_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "clients_environment").AsValueMap())
		for _, key := range m.local(t, "generated_keys").AsValueMap() {
			variable := key.GetAttr("variable").AsString()
			for _, name := range []string{variable, variable + "_NEXT", variable + "_PREVIOUS"} {
				settable[name] = key
			}
		}
		settable["EDGE_SECRETS"] = m.local(t, "secrets").GetAttr("edge")
		for service, env := range m.local(t, "environments").AsValueMap() {
			binary := m.local(t, "services").GetAttr(service).GetAttr("binary").AsString()
			read := config.Variables(binary)
			set := env.AsValueMap()
			maps.Copy(set, secret[service].AsValueMap())
			for name := range set {
				if _, is := read[name]; !is {
					t.Errorf("%s sets %s, which its binary does not read: remove it from terraform/environment.tf",
						service, name)
				}
				if slices.Contains(notSet, name) {
					t.Errorf("%s sets %s, which Terraform must not set", service, name)
				}
			}
			for name, required := range read {
				if _, ok := set[name]; required && !ok {
					t.Errorf("%s does not set %s, without which its binary does not start: add it to "+
						"terraform/environment.tf", service, name)
				}
			}
			for name := range read {
				_, can := settable[name]
				_, is := set[name]
				if !can && !is && !slices.Contains(notSet, name) && name != "FUNCTION_TARGET" {
					t.Errorf("functions/cmd/config reads %s, which Terraform never sets: add it to "+
						"terraform/environment.tf", name)
				}
			}
		}
	})
}

// TestEnvironment_HasTheOperatorsSettings holds the values of every variable of a service of routes and of one of
// workers, with every setting. TestEnvironment_EqualsConfiguration compares the names with the code.
func TestEnvironment_HasTheOperatorsSettings(t *testing.T) {
	t.Parallel()
	given := everything()
	given["topology"], given["domain"] = cty.StringVal("group"), cty.StringVal("api.example.com")
	given["rate_limit_factor"], given["debug"] = cty.NumberIntVal(3), cty.True
	given["secret_manager_writes_per_minute"] = cty.NumberIntVal(1200)
	given["max_free_agents"] = cty.NumberIntVal(30)
	m := load(t, given)
	digest := "@sha256:" + strings.Repeat("0", 64)
	common := map[string]string{
		"GOOGLE_CLOUD_PROJECT": "my-project", "ENVIRONMENT": "prod", "FIRESTORE_DATABASE": "agents-prod-2",
		"NUDGE_TOPIC": "prod-agent-nudges", "SECRET_REGIONS": "us-central1,us-east1", "RATE_LIMIT_FACTOR": "3",
		"LOG_DEBUG": "true", "TRACE_RATIO": "0", "IDENTITY_ISSUER": "https://securetoken.google.com/my-project",
		"IDENTITY_AUTHORIZED_PARTIES": "https://app.example.com", "AGENT_DOMAIN": "agents.example.net",
		"SECRET_MANAGER_WRITES_PER_MINUTE": "1200", "MAX_FREE_AGENTS": "30",
		"HANDOFF_PUBLIC_KEYS": `{"keys": []}`, "APP_URL": "https://app.example.com",
		"CELLS":                 "(unknown)", // it has the endpoints of clusters; see below
		"STRIPE_API_KEY":        "secret prod-stripe-api-key at latest",
		"STRIPE_WEBHOOK_SECRET": "secret prod-stripe-webhook-secret at latest",
		"WEBHOOK_TOPIC":         "prod-webhook-nudges",

		"PLATFORM_IMAGE": "image" + digest, "AGENT_IMAGE": "agent" + digest, "AGENT_PORT": "3000",
		"AGENT_API_PORT": "3001", "AGENT_HEALTH_PATH": "/healthz", "AGENT_AUTH": "front",
		"AGENT_REGISTRIES": "us-docker.pkg.dev/team/,ghcr.io/team/",

		"WEBHOOK_SIGNING_KEY":      "secret prod-webhook-signing-key at (unknown)",
		"WEBHOOK_SIGNING_KEY_NEXT": "secret prod-webhook-signing-key at (unknown)",
	}
	for service, own := range map[string]map[string]string{
		"routes": {
			"GOMEMLIMIT": "400MiB", "GOGC": "400", "EDGE_SECRETS": "secret prod-edge-secrets at (unknown)",
			"API_KEY_PEPPER":          "secret prod-api-key-pepper at (unknown)",
			"API_KEY_PEPPER_PREVIOUS": "secret prod-api-key-pepper at (unknown)",
			"HANDOFF_SIGNING_KEY":     "secret prod-handoff-signing-key at latest",
			"MAX_HELD_ANSWERS":        "175", "CONSOLE_CLIENT_ID": "console-1", "CONSOLE_SCOPES": "openid email",
			"SUPPORT_URL":  "https://support.example.com",
			"API_BASE_URL": "https://api.example.com", "BACKUP_FOR_GKE": "true", "CLI_CLIENT_ID": "agentctl-1",
			"CLI_SCOPES": "openid offline_access", "CLIENTS_BUCKET": "my-project-prod-builds",
		},
		"worker": {
			"AGENT_STORAGE_CLASS": "premium-rwo", "AGENT_RESOLVERS": "10.8.0.10/32", "GATE_ADDRESS": "34.118.224.54",
			"JWKS_URL":         "https://api.example.com/.well-known/jwks.json",
			"ROUTER_NAMESPACE": "agent-gateway", "MONITORING_PROJECT": "my-project",
			"PUSH_SERVICE_ACCOUNT": "prod-push@my-project.iam.gserviceaccount.com",
			"PUSH_AUDIENCE":        "https://prod-worker-123456789012.us-central1.run.app", "GOMEMLIMIT": "400MiB",
			"GOGC": "100",
		},
	} {
		want := maps.Clone(common)
		maps.Copy(want, own)
		got := variables(t, m.resources(t, "google_cloud_run_v2_service")[`this["`+service+`"]`])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("environment of %s (-want +got):\n%s", service, diff)
		}
	}
}

// TestEnvironment_ListsCells holds the fields of CELLS that are known before the clusters exist.
func TestEnvironment_ListsCells(t *testing.T) {
	t.Parallel()
	want := []map[string]string{
		{
			"name": "a1", "region": "us-central1", "cluster": "prod-a1", "closed": "true", "image": "(none)",
			"endpoint": "(unknown)",
		},
		{
			"name": "b1", "region": "europe-west4", "cluster": "prod-b1", "closed": "(none)",
			"image": "agent@sha256:" + strings.Repeat("1", 64), "endpoint": "(unknown)",
		},
	}
	var got []map[string]string
	for _, cell := range load(t, everything()).local(t, "cells").AsValueSlice() {
		got = append(got, arguments(t, cell, want[0]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}

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

// TestPolicies_ApplyToTheRouter holds that the cluster's own policies select the router, the notifier and the gate.
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
	for _, name := range []string{"agent-router", "agent-notifier", "agent-gate"} {
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

// TestNotifier_IsReachedByTheRouterOnly follows the router's call from its URL to the notifier's pod.
func TestNotifier_IsReachedByTheRouterOnly(t *testing.T) {
	t.Parallel()
	router := object[appsv1.Deployment](t, "Deployment", "agent-router")
	notifier := object[appsv1.Deployment](t, "Deployment", "agent-notifier")
	env := router.Spec.Template.Spec.Containers[0].Env
	i := slices.IndexFunc(env, func(e corev1.EnvVar) bool { return e.Name == "NOTIFIER_URL" })
	if i < 0 {
		t.Fatal("the router does not know the notifier")
	}
	base, err := url.Parse(env[i].Value)
	if err != nil {
		t.Fatal(err)
	}
	service := object[corev1.Service](t, "Service", base.Hostname())
	selector := metav1.LabelSelector{MatchLabels: service.Spec.Selector}
	port, container := service.Spec.Ports[0], notifier.Spec.Template.Spec.Containers[0].Ports[0]
	if service.Namespace != router.Namespace || !selects(t, selector, notifier) ||
		fmt.Sprint(port.Port) != base.Port() || port.TargetPort.String() != container.Name ||
		container.ContainerPort != port.Port {
		t.Errorf("%s leads to %+v, want the notifier's port", base, service.Spec)
	}
	in := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-notifier").Spec.Ingress
	if len(in) != 1 || len(in[0].From) != 1 || len(in[0].Ports) != 1 || in[0].From[0].NamespaceSelector != nil ||
		in[0].From[0].PodSelector == nil || !selects(t, *in[0].From[0].PodSelector, router) ||
		selects(t, *in[0].From[0].PodSelector, notifier) || in[0].Ports[0].Port.IntValue() != int(port.Port) {
		t.Errorf("the notifier admits %+v, want the router alone, to its port", in)
	}
}

// gateIdentity is the gate's in the project of the cells.
const gateIdentity = "principal://iam.googleapis.com/projects/123456789012/locations/global/workloadIdentityPools/" +
	"my-project.svc.id.goog/subject/ns/agent-gateway/sa/agent-gate-prod"

// TestDeployments_HaveTheEnvironmentOfTheirBinaries compares the variables with what the binaries read.
func TestDeployments_HaveTheEnvironmentOfTheirBinaries(t *testing.T) {
	t.Parallel()
	for deployment, binary := range map[string]string{
		"agent-router": "router", "agent-notifier": "notifier", "agent-gate": "gate",
	} {
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
	if found != 6 {
		t.Errorf("found %d Deployments, want the router, the notifier, the gate, the canary and two placeholders",
			found)
	}
}
