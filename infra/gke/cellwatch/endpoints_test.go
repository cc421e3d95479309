//go:build unix

package cellwatch

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// labelService says who starts the agent.
func (w *world) labelService(t *testing.T, starter string) {
	t.Helper()
	w.patchService(t, map[string]any{"labels": map[string]string{dataplane.LabelStarter: starter}})
}

// startEndpoints starts a watch and waits for the first list.
func startEndpoints(t *testing.T, config *rest.Config) *Endpoints {
	t.Helper()
	e, err := NewEndpoints(config)
	must(t, err)
	start(t, e.Run, e.AwaitSync)
	return e
}

// await waits until an agent has a state.
func (e *Endpoints) await(t *testing.T, namespace string, want router.State) router.Endpoint {
	t.Helper()
	clustertest.Eventually(t, func(context.Context) error {
		if got := e.Lookup(namespace); got.State != want {
			return fmt.Errorf("state = %d, want %d", got.State, want)
		}
		return nil
	})
	return e.Lookup(namespace)
}

func TestEndpoints_FollowTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := startEndpoints(t, w.config)
	if got := e.Lookup(w.namespace()); got != (router.Endpoint{}) {
		t.Errorf("Lookup before there is a Service = %+v, want unknown", got)
	}
	w.createService(t, w.namespace(), service)
	if got := e.await(t, w.namespace(), router.NotReady); got.Slug != "support" || got.Addr.IsValid() {
		t.Errorf("Lookup without a pod = %+v, want the slug and no address", got)
	}
	w.createPod(t, w.namespace())
	ready := e.await(t, w.namespace(), router.Ready)
	pod, err := w.Pods(w.namespace()).Get(t.Context(), "agent-0", metav1.GetOptions{})
	must(t, err)
	if want := netip.AddrPortFrom(netip.MustParseAddr(pod.Status.PodIP), 8080); ready.Addr != want {
		t.Errorf("address = %s, want that of the pod, %s", ready.Addr, want)
	}
	if later := startEndpoints(t, w.config).Lookup(w.namespace()); later != ready {
		t.Errorf("a watch that starts later finds %+v, want %+v", later, ready)
	}
	w.labelService(t, dataplane.StarterOwner)
	if got := e.Lookup(w.namespace()); got.State != router.Ready { // while there is a pod, the label means nothing
		t.Errorf("Lookup of an agent with a pod = %+v, want ready", got)
	}
	w.deletePod(t, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if got := e.await(t, w.namespace(), router.Stopped); got.Slug != "support" {
		t.Errorf("Lookup of a stopped agent = %+v, want the slug", got)
	}
	w.labelService(t, "another")
	e.await(t, w.namespace(), router.NotReady)
	must(t, w.Namespaces().Delete(t.Context(), w.namespace(), metav1.DeleteOptions{}))
	e.await(t, w.namespace(), router.Unknown)
}

// TestEndpoints_KnowWhatWakesAnAgent: the cluster copies all labels of a Service, also those of 40 public paths.
func TestEndpoints_KnowWhatWakesAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := startEndpoints(t, w.config)
	w.createService(t, w.namespace(), service)
	var paths []string
	for i := range 40 {
		paths = append(paths, fmt.Sprintf("/hooks/%d/", i))
	}
	labels := dataplane.PublicPathLabels(paths)
	maps.Copy(labels, map[string]string{
		dataplane.LabelStarter: dataplane.StarterRequest, dataplane.LabelOrganization: "org_2abc",
	})
	w.patchService(t, map[string]any{"labels": labels})
	want := router.Endpoint{
		State: router.NotReady, Slug: "support", Wakes: true, Organization: "org_2abc",
		Public: dataplane.PublicSetOf(labels),
	}
	clustertest.Eventually(t, func(context.Context) error {
		if got := e.Lookup(w.namespace()); got != want {
			return fmt.Errorf("Lookup = %+v, want %+v", got, want)
		}
		return nil
	})
	w.createPod(t, w.namespace())
	ready := e.await(t, w.namespace(), router.Ready)
	if want.State, want.Addr = router.Ready, ready.Addr; ready != want {
		t.Errorf("Lookup of an agent with a pod = %+v, want %+v", ready, want)
	}
	w.deletePod(t, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	if got := e.await(t, w.namespace(), router.NotReady); !got.Wakes {
		t.Errorf("Lookup of an agent that sleeps = %+v, want one that wakes", got)
	}
	w.labelService(t, dataplane.StarterOwner)
	if got := e.await(t, w.namespace(), router.Stopped); got.Wakes {
		t.Errorf("Lookup of an agent that its owner paused = %+v, want one that nothing wakes", got)
	}
}

// TestEndpoints_IgnoreWhatIsNoAgent: labels can be copied, and an agent's namespace can have other Services.
func TestEndpoints_IgnoreWhatIsNoAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := startEndpoints(t, w.config)
	foreign := "tenant-" + w.id
	odd := agent.Namespace(strings.ReplaceAll(w.id, "-", ""))
	for _, namespace := range []string{foreign, odd} {
		w.createNamespace(t, metav1.ObjectMeta{Name: namespace})
		w.createService(t, namespace, service)
	}
	w.createService(t, w.namespace(), "another")
	last := newWorld(t) // its slice comes after all others
	last.createService(t, last.namespace(), service)
	clustertest.Eventually(t, func(ctx context.Context) error {
		for _, namespace := range []string{foreign, odd, w.namespace()} {
			slices, err := w.EndpointSlices(namespace).List(ctx, metav1.ListOptions{})
			if err != nil || len(slices.Items) == 0 {
				return fmt.Errorf("%s has no slice: %w", namespace, err)
			}
		}
		return nil
	})
	e.await(t, last.namespace(), router.NotReady)
	for _, namespace := range []string{foreign, odd, w.namespace()} {
		if got := e.Lookup(namespace); got.State != router.Unknown {
			t.Errorf("Lookup(%s) = %+v, want unknown", namespace, got)
		}
	}
}

// TestEndpoints_NeedNoOtherRight runs the watch as a user that may read EndpointSlices.
func TestEndpoints_NeedNoOtherRight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := "router-" + w.id
	_, err := w.ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"discovery.k8s.io"}, Resources: []string{"endpointslices"},
			Verbs: []string{"get", "list", "watch"},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = w.ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: "rbac.authorization.k8s.io", Kind: "User", Name: name}},
	}, metav1.CreateOptions{})
	must(t, err)
	config := rest.CopyConfig(w.config)
	config.Impersonate.UserName = name
	e := startEndpoints(t, config)
	w.createService(t, w.namespace(), service)
	e.await(t, w.namespace(), router.NotReady)
}

// TestEndpoints_SurviveAnOutageOfTheAPI: agents stay reachable in between, and no change is missed.
func TestEndpoints_SurviveAnOutageOfTheAPI(t *testing.T) {
	t.Parallel()
	w, gone := newWorld(t), newWorld(t)
	var c wires
	config := rest.CopyConfig(w.config)
	config.Dial = c.dial
	e := startEndpoints(t, config)
	for _, agent := range []*world{w, gone} {
		agent.createService(t, agent.namespace(), service)
		agent.createPod(t, agent.namespace())
		e.await(t, agent.namespace(), router.Ready)
	}
	was := e.Lookup(w.namespace())
	c.cut()
	w.deletePod(t, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	must(t, gone.Services(gone.namespace()).Delete(t.Context(), service, metav1.DeleteOptions{}))
	clustertest.Eventually(t, func(ctx context.Context) error {
		slices, err := gone.EndpointSlices(gone.namespace()).List(ctx, metav1.ListOptions{})
		if err != nil || len(slices.Items) > 0 {
			return fmt.Errorf("the slices are not gone: %w", err)
		}
		return nil
	})
	if got := e.Lookup(w.namespace()); got != was {
		t.Errorf("Lookup during the outage = %+v, want the last known %+v", got, was)
	}
	c.restore()
	e.await(t, w.namespace(), router.NotReady)
	e.await(t, gone.namespace(), router.Unknown)
}

func TestEndpoints_StoreStrippedSlices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := startEndpoints(t, w.config)
	w.createService(t, w.namespace(), service)
	w.createPod(t, w.namespace())
	e.await(t, w.namespace(), router.Ready)
	stored, err := e.informer.GetIndexer().ByIndex("namespace", w.namespace())
	if err != nil || len(stored) != 1 {
		t.Fatalf("stored = %v, %v, want one slice", stored, err)
	}
	s := stored[0].(*discoveryv1.EndpointSlice)
	if len(s.ManagedFields) > 0 || len(s.OwnerReferences) > 0 || len(s.Labels) != 1 || len(s.Annotations) > 0 ||
		s.Endpoints[0].TargetRef != nil || s.Endpoints[0].NodeName != nil {
		t.Errorf("the stored slice has fields that are not needed: %+v", s)
	}
}

func TestMerge_PrefersReadyAddresses(t *testing.T) {
	t.Parallel()
	slice := func(ready *bool, address string, ports ...discoveryv1.EndpointPort) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			Ports:     ports,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready}}},
		}
	}
	port := discoveryv1.EndpointPort{Name: new(portName), Port: new(int32(8080))}
	other := discoveryv1.EndpointPort{Name: new("metrics"), Port: new(int32(9091))}
	for _, row := range []struct {
		name   string
		slices []*discoveryv1.EndpointSlice
		want   router.Endpoint
	}{
		{name: "none", want: router.Endpoint{}},
		{name: "empty", slices: []*discoveryv1.EndpointSlice{{}}, want: router.Endpoint{State: router.NotReady}},
		{
			name: "not ready", slices: []*discoveryv1.EndpointSlice{slice(new(false), "10.0.0.1", port)},
			want: router.Endpoint{State: router.NotReady},
		},
		{
			name: "unknown readiness is ready", slices: []*discoveryv1.EndpointSlice{slice(nil, "10.0.0.1", other, port)},
			want: router.Endpoint{State: router.Ready, Addr: netip.MustParseAddrPort("10.0.0.1:8080")},
		},
		{
			name: "another port", slices: []*discoveryv1.EndpointSlice{slice(new(true), "10.0.0.1", other)},
			want: router.Endpoint{State: router.NotReady},
		},
		{
			name: "one of two slices", slices: []*discoveryv1.EndpointSlice{
				slice(new(false), "10.0.0.1", port), slice(new(true), "10.0.0.2", port),
				slice(new(true), "10.0.0.3", port),
			},
			want: router.Endpoint{State: router.Ready, Addr: netip.MustParseAddrPort("10.0.0.2:8080")},
		},
		{
			name: "IPv6", slices: []*discoveryv1.EndpointSlice{slice(new(true), "fd00::1", port)},
			want: router.Endpoint{State: router.Ready, Addr: netip.MustParseAddrPort("[fd00::1]:8080")},
		},
	} {
		got := router.Endpoint{}
		for _, s := range row.slices {
			got = merge(got, s)
		}
		if got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.name, got, row.want)
		}
	}
}
