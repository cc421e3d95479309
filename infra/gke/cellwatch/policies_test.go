//go:build unix

package cellwatch

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/egress"
)

// startAgent creates the agent's Service and pod, and returns the pod's address.
func (w *world) startAgent(t *testing.T) netip.Addr {
	t.Helper()
	w.createService(t, w.namespace(), service)
	w.createPod(t, w.namespace())
	var address netip.Addr
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := w.Pods(w.namespace()).Get(ctx, "agent-0", metav1.GetOptions{})
		if err == nil {
			address, err = netip.ParseAddr(pod.Status.PodIP)
		}
		return err
	})
	return address
}

// annotate sets the text of the agent's policy; nil removes it.
func (w *world) annotate(t *testing.T, text any) {
	t.Helper()
	w.patchService(t, map[string]any{"annotations": map[string]any{egress.Annotation: text}})
}

// startPolicies starts a watch and waits for the first lists.
func startPolicies(t *testing.T, config *rest.Config) *Policies {
	t.Helper()
	p, err := NewPolicies(config)
	must(t, err)
	start(t, p.Run, p.AwaitSync)
	return p
}

// await waits, as the gate does, until an address has an agent with a policy, or none if want is empty.
func (p *Policies) await(t *testing.T, address netip.Addr, want string) {
	t.Helper()
	for {
		changed := p.Changed()
		got := ""
		if a, ok := p.Lookup(address); ok {
			got = a.ID + " " + strings.Join(a.Policy.Allow, " ")
		}
		if got == want {
			return
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatalf("%s has %q, want %q", address, got, want)
		}
	}
}

func TestPolicies_FollowTheLifeOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := startPolicies(t, w.config)
	address := w.startAgent(t)
	if _, ok := p.Lookup(address); ok {
		t.Error("an agent without a policy is found")
	}
	w.annotate(t, egress.Policy{Allow: []string{"a.example"}}.Encode())
	p.await(t, address, w.id+" a.example")
	first, _ := p.Lookup(address)
	w.annotate(t, egress.Policy{Allow: []string{"a.example", "b.example"}}.Encode())
	p.await(t, address, w.id+" a.example b.example")
	if len(first.Policy.Allow) != 1 {
		t.Errorf("the former policy changed: %v", first.Policy.Allow)
	}
	later := startPolicies(t, w.config) // knows the agent when it has synchronized
	if a, ok := later.Lookup(address); !ok || a.ID != w.id || len(a.Policy.Allow) != 2 {
		t.Errorf("a watch that starts later finds %+v, %t", a, ok)
	}
	w.annotate(t, "{")
	p.await(t, address, "")
	w.annotate(t, egress.Policy{Allow: []string{"a.example"}}.Encode())
	p.await(t, address, w.id+" a.example")
	w.annotate(t, nil)
	p.await(t, address, "")
	w.annotate(t, egress.Policy{Allow: []string{"a.example"}}.Encode())
	p.await(t, address, w.id+" a.example")
	w.deletePod(t, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	p.await(t, address, "")
}

// slice returns a slice of an agent as the watch reports it.
func slice(id, name string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: agent.Namespace(id), Name: name}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

// served returns the Service of an agent with a policy.
func served(namespace string, allow ...string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: service,
		Annotations: map[string]string{egress.Annotation: egress.Policy{Allow: allow}.Encode()},
	}}
}

// unwatched is a watch that gets its objects from the test.
func unwatched(t *testing.T) *Policies {
	t.Helper()
	p, err := NewPolicies(&rest.Config{Host: "http://127.0.0.1:1"})
	must(t, err)
	return p
}

func (p *Policies) put(t *testing.T, s *discoveryv1.EndpointSlice) {
	t.Helper()
	must(t, p.slices.GetIndexer().Add(s))
	p.sliceChanged(s, false)
}

// TestPolicies_DistrustAnAddressOfTwoAgents: an address is given to another pod, and the slices of the former one are
// late. Neither agent may act as the other.
func TestPolicies_DistrustAnAddressOfTwoAgents(t *testing.T) {
	t.Parallel()
	p := unwatched(t)
	one, two, address := uuid.NewString(), uuid.NewString(), netip.MustParseAddr("10.64.0.9")
	p.serviceChanged(served(agent.Namespace(one), "a.example"), false)
	p.serviceChanged(served(agent.Namespace(two), "b.example"), false)
	p.put(t, slice(one, "x", "10.64.0.9"))
	p.put(t, slice(one, "y", "10.64.0.9", "fd00::9")) // while endpoints move between slices
	if a, ok := p.Lookup(address); !ok || a.ID != one {
		t.Fatalf("Lookup = %+v, %t, want the first agent", a, ok)
	}
	p.put(t, slice(two, "x", "10.64.0.9"))
	if a, ok := p.Lookup(address); ok {
		t.Errorf("Lookup of an address of two agents = %+v", a)
	}
	p.put(t, slice(one, "x"))
	p.put(t, slice(one, "y"))
	if a, ok := p.Lookup(address); !ok || a.ID != two {
		t.Errorf("Lookup = %+v, %t, want the second agent", a, ok)
	}
}

// TestPolicies_KnowAgentsOnly: others can copy the labels of an agent's objects.
func TestPolicies_KnowAgentsOnly(t *testing.T) {
	t.Parallel()
	p := unwatched(t)
	id, address := uuid.NewString(), netip.MustParseAddr("10.64.0.9")
	foreign := slice(id, "x", "10.64.0.9")
	foreign.Namespace = "default"
	p.put(t, foreign)
	p.serviceChanged(served("default", "*"), false)
	other := served(agent.Namespace(id), "*")
	other.Name = "other"
	p.serviceChanged(other, false)
	p.put(t, slice(id, "y", "10.64.0.8"))
	for _, a := range []netip.Addr{address, netip.MustParseAddr("10.64.0.8")} {
		if found, ok := p.Lookup(a); ok {
			t.Errorf("Lookup(%s) = %+v, want none", a, found)
		}
	}
}

// TestPolicies_AnnounceChangesOnly: the gate looks at all connections after each announcement.
func TestPolicies_AnnounceChangesOnly(t *testing.T) {
	t.Parallel()
	p := unwatched(t)
	id := uuid.NewString()
	announced := func(change func()) bool {
		before := p.Changed()
		change()
		select {
		case <-before:
			return true
		default:
			return false
		}
	}
	policy := func() { p.serviceChanged(served(agent.Namespace(id), "a.example"), false) }
	for _, row := range []struct {
		name   string
		change func()
		want   bool
	}{
		{name: "a policy", change: policy, want: true},
		{name: "the same", change: policy},
		{name: "a pod", change: func() { p.put(t, slice(id, "x", "10.64.0.9")) }, want: true},
		{name: "a pod that is ready", change: func() { p.put(t, slice(id, "x", "10.64.0.9")) }},
		{name: "no pod", change: func() { p.put(t, slice(id, "x")) }, want: true},
		{name: "no agent", change: func() { p.serviceChanged(served(agent.Namespace(id)), true) }, want: true},
		{name: "still none", change: func() { p.serviceChanged(served(agent.Namespace(id)), true) }},
	} {
		if got := announced(row.change); got != row.want {
			t.Errorf("%s: announced %t, want %t", row.name, got, row.want)
		}
	}
	if len(p.policies)+len(p.addresses)+len(p.owners) > 0 {
		t.Errorf("an agent that is gone leaves %v %v %v", p.policies, p.addresses, p.owners)
	}
}

// TestPolicies_OfAllAgentsAreSmall holds 5,000 agents with twenty names each, as a gate does.
func TestPolicies_OfAllAgentsAreSmall(t *testing.T) { //nolint:paralleltest // it measures the heap
	p := unwatched(t)
	const agents, most = 5000, 64 << 20
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range agents {
		id := uuid.NewString()
		allow := make([]string, 20)
		for j := range allow {
			allow[j] = fmt.Sprintf("api-%d.service-%d.example.com", j, i)
		}
		s, err := stripService(served(agent.Namespace(id), allow...))
		must(t, err)
		must(t, p.services.GetIndexer().Add(s))
		p.serviceChanged(s, false)
		p.put(t, slice(id, "agent-x", netip.AddrFrom4([4]byte{10, 64, byte(i >> 8), byte(i)}).String()))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	took := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d agents take %d KiB", agents, took>>10)
	if took > most {
		t.Errorf("%d agents take %d bytes, want at most %d", agents, took, most)
	}
	runtime.KeepAlive(p)
}
