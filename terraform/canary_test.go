//go:build unix

package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/infra/gke/endpoints"
	"agents.example/controlplane/infra/gke/podwatch"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/notifier"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/terraform/cell"
)

// canaryHost is the hostname of the canary in the cell of cellObjects.
const canaryHost = cell.CanaryLabel + ".cell.agents.example.net"

// TestCanary_IsReachedAsAnAgent runs the canary's programs in a real cluster, and asks for it through the router.
func TestCanary_IsReachedAsAnAgent(t *testing.T) {
	t.Parallel()
	clustertest.Require(t)
	programs, err := dataplane.Build(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	image := "image@sha256:" + strings.Repeat("0", 64)
	// The other programs cannot run here.
	options := cluster.Options{Images: map[string]string{image: programs}}
	f := startCellWith(t, options, func(o *unstructured.Unstructured) bool {
		return served(o) && (o.GetKind() != "Deployment" || o.GetNamespace() == cell.CanaryNamespace)
	})
	r := startRouter(t, f)
	clustertest.Eventually(t, func(ctx context.Context) error {
		got := ask(ctx, r, "/health/ready")
		if got.Code != http.StatusOK {
			return fmt.Errorf("the canary answers %d: %s", got.Code, got.Body)
		}
		return nil
	})
	got := ask(t.Context(), r, "/health/ready")
	want := text(t, load(t, nil).local(t, "uptime_checks"), "cell-us-central1-1.content")
	if !strings.Contains(got.Body.String(), want) {
		t.Errorf("the canary answers %q, and the uptime check looks for %q", got.Body, want)
	}
	if got := ask(t.Context(), r, "/"); got.Code != http.StatusUnauthorized {
		t.Errorf("the canary's dashboard answers %d to anyone, want 401", got.Code)
	}
	checkUnlisted(t, f)
}

// startRouter starts the cell's router, without its network.
func startRouter(t *testing.T, f cellFixture) *router.Router {
	t.Helper()
	agents, err := endpoints.New(clustertest.Config(t, f.kubeconfigOf(t, routerAccount)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var watching sync.WaitGroup
	watching.Go(func() { agents.Run(ctx) })
	t.Cleanup(func() { stop(); watching.Wait() })
	if err := agents.AwaitSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Options{Domain: "cell.agents.example.net", Endpoints: agents})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func ask(ctx context.Context, h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "https://"+canaryHost+path, nil))
	return w
}

// checkUnlisted holds that no worker takes the canary, which runs, for an agent.
func checkUnlisted(t *testing.T, f cellFixture) {
	t.Helper()
	if found, err := f.clusters(t, collector).Namespaces(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("orphan collection lists %v, %v; want nothing", found, err)
	}
	looks := f.clusters(t, observer)
	if found, err := looks.Pods(t.Context(), "cell"); err != nil || len(found) != 0 {
		t.Errorf("observation lists %v, %v; want nothing", found, err)
	}
	objects, err := looks.Objects(t.Context(), "cell")
	if err != nil {
		t.Fatal(err)
	}
	a := newAgent()
	a.ID = strings.TrimPrefix(cell.CanaryNamespace, "agent-")
	unseen := map[string]bool{}
	for _, d := range objects.Differences(a) {
		unseen[d.Object] = d.Problem == provisioning.Missing || d.Problem == provisioning.Lost
	}
	for _, o := range []string{"Namespace " + cell.CanaryNamespace, "Service agent in " + cell.CanaryNamespace} {
		if !unseen[o] {
			t.Errorf("the drift check sees the canary's %s; unseen: %v", o, unseen)
		}
	}
	checkUnwatched(t, f)
}

// checkUnwatched holds that the notifier reports nothing of the canary.
func checkUnwatched(t *testing.T, f cellFixture) {
	t.Helper()
	seen := &sightings{}
	w, err := podwatch.New(clustertest.Config(t, f.kubeconfigOf(t, notifierAccount)), seen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	watching.Go(func() { w.Run(ctx) })
	clustertest.Eventually(t, func(context.Context) error {
		if !w.Synced() {
			return errors.New("the notifier has not listed the pods yet")
		}
		return nil
	})
	stop()
	watching.Wait()
	if len(seen.agents) > 0 {
		t.Errorf("the notifier sees agents %v, want none", seen.agents)
	}
}

// sightings are the agents that a notifier hears of.
type sightings struct{ agents []string }

func (s *sightings) PodFound(id string, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) PodAdded(id string, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) PodChanged(id string, _, _ notifier.Pod) { s.agents = append(s.agents, id) }

func (s *sightings) Gone(id string) { s.agents = append(s.agents, id) }

// TestCanary_HasTheNamesThatTerraformUses compares the names in uptime.tf with those of package cell, and with those
// that the router derives from a hostname.
func TestCanary_HasTheNamesThatTerraformUses(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	for field, want := range map[string]string{
		"namespace": cell.CanaryNamespace, "slug": cell.CanarySlug, "label": cell.CanaryLabel,
	} {
		if got := text(t, m.local(t, "canary"), field); got != want {
			t.Errorf("local.canary.%s = %q in uptime.tf, want %q", field, got, want)
		}
	}
	id, ok := agent.IDFromHostname(canaryHost, "cell.agents.example.net")
	if !ok || agent.Namespace(id) != cell.CanaryNamespace {
		t.Errorf("%s leads to the namespace %q, want %q", canaryHost, agent.Namespace(id), cell.CanaryNamespace)
	}
	canary := agent.Agent{ID: id, Slug: cell.CanarySlug, Cell: "cell"}
	if got := canary.Hostname(agent.Addresses{Domain: "agents.example.net"}); got != canaryHost {
		t.Errorf("an agent with the canary's names has the hostname %q, want %q", got, canaryHost)
	}
}

// TestCanary_IsReachedByTheRouterOnly holds the network policies between the router and the canary to the design.
func TestCanary_IsReachedByTheRouterOnly(t *testing.T) {
	t.Parallel()
	canary := object[appsv1.Deployment](t, "Deployment", "agent-canary")
	policy := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-canary")
	if !selects(t, policy.Spec.PodSelector, canary) || len(policy.Spec.Ingress) != 1 || len(policy.Spec.Egress) != 0 {
		t.Fatalf("policy = %+v, want one source for the canary's pods and no destination", policy.Spec)
	}
	gateway := map[string]string{corev1.LabelMetadataName: cell.GatewayNamespace}
	from, port := policy.Spec.Ingress[0].From, policy.Spec.Ingress[0].Ports
	if len(from) != 1 || from[0].IPBlock != nil ||
		!maps.Equal(from[0].NamespaceSelector.MatchLabels, gateway) ||
		!selects(t, *from[0].PodSelector, object[appsv1.Deployment](t, "Deployment", "agent-router")) {
		t.Errorf("sources = %+v, want the router's pods", from)
	}
	if len(port) != 1 || port[0].Port.IntVal != 8080 {
		t.Errorf("ports = %+v, want 8080", port)
	}
	denied := map[string]bool{}
	for _, o := range cellObjects(t) {
		if o.GetKind() == "NetworkPolicy" && o.GetName() == "default-deny" {
			denied[o.GetNamespace()] = true
		}
	}
	if !denied[cell.CanaryNamespace] {
		t.Error("the canary's namespace has no policy that denies what no other policy allows")
	}
	routes := object[networkingv1.NetworkPolicy](t, "NetworkPolicy", "agent-router").Spec.Egress[0]
	namespace := object[corev1.Namespace](t, "Namespace", cell.CanaryNamespace)
	if !labels.SelectorFromSet(routes.To[0].NamespaceSelector.MatchLabels).Matches(labels.Set(namespace.Labels)) {
		t.Errorf("the router may reach namespaces with %v; the canary's has %v", routes.To[0].NamespaceSelector,
			namespace.Labels)
	}
}

// TestCanary_HasNoLabelOfAnAgent holds that no selector by which workers list agents matches an object of the canary.
func TestCanary_HasNoLabelOfAnAgent(t *testing.T) {
	t.Parallel()
	found := 0
	for _, o := range cellObjects(t) {
		if o.GetNamespace() != cell.CanaryNamespace && o.GetName() != cell.CanaryNamespace {
			continue
		}
		found++
		if id, ok := o.GetLabels()["agents.example/agent-id"]; ok {
			t.Errorf("%s %s has the label of agent %s: workers would list it", o.GetKind(), o.GetName(), id)
		}
	}
	if found < 5 {
		t.Errorf("found %d objects of the canary, want at least its namespace, policies, Service and Deployment", found)
	}
	template := object[appsv1.Deployment](t, "Deployment", "agent-canary").Spec.Template
	for _, selected := range []metav1.LabelSelector{
		{MatchLabels: map[string]string{"app.kubernetes.io/managed-by": "agent-control-plane"}},
		{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: "agents.example/agent-id", Operator: metav1.LabelSelectorOpExists,
		}}},
	} {
		if s, _ := metav1.LabelSelectorAsSelector(&selected); s.Matches(labels.Set(template.Labels)) {
			t.Errorf("the canary's pods have the labels %v of an agent's", template.Labels)
		}
	}
}
