package policy

import (
	"context"
	"net"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/kube-network-policies/pkg/api"
	"sigs.k8s.io/kube-network-policies/pkg/network"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
	"sigs.k8s.io/kube-network-policies/pkg/podinfo"
)

func TestParse_RefusesShortPackets(t *testing.T) {
	t.Parallel()
	tcp := make([]byte, 24)
	tcp[0], tcp[9] = 0x45, 6
	for length := range len(tcp) + 1 {
		if _, err := parse(tcp[:length]); err == nil {
			t.Errorf("a packet of %d bytes is accepted", length)
		}
	}
}

func TestAddressesOf_SkipsPodsThatDoNotHaveTheirAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		phase corev1.PodPhase
		host  bool
		want  int
	}{
		{name: "init containers run", phase: corev1.PodPending, want: 1},
		{name: "running", phase: corev1.PodRunning, want: 1},
		{name: "succeeded", phase: corev1.PodSucceeded},
		{name: "failed", phase: corev1.PodFailed},
		{name: "in the node's network", phase: corev1.PodRunning, host: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := podWith("pod", "10.77.0.11")
			p.Spec.HostNetwork, p.Status.Phase = test.host, test.phase
			addresses, err := addressesOf(p)
			if err != nil || len(addresses) != test.want {
				t.Errorf("got %v, %v, want %d addresses", addresses, err, test.want)
			}
		})
	}
}

// evaluator accepts packets, and lets something happen before it does.
type evaluator struct {
	api.PolicyEvaluator
	before func()
}

func (e evaluator) EvaluateEgress(
	context.Context, *network.Packet, *api.PodInfo, *api.PodInfo,
) (api.Verdict, error) {
	e.before()
	return api.VerdictAccept, nil
}

func (evaluator) EvaluateIngress(
	context.Context, *network.Packet, *api.PodInfo, *api.PodInfo,
) (api.Verdict, error) {
	return api.VerdictAccept, nil
}

func TestAllows_NeedsTheSamePodsBeforeAndAfterTheDecision(t *testing.T) {
	t.Parallel()
	first, second := podWith("first", "10.77.0.11"), podWith("second", "10.77.0.11")
	for _, test := range []struct {
		name        string
		given       *corev1.Pod
		noNamespace bool
		during      func(pods cache.Indexer) error
		want        bool
	}{
		{name: "known", given: first, want: true},
		{name: "unknown"},
		{name: "namespace unknown", given: first, noNamespace: true},
		{name: "appears", during: func(pods cache.Indexer) error { return pods.Add(first) }},
		{name: "disappears", given: first, during: func(pods cache.Indexer) error { return pods.Delete(first) }},
		{
			name: "two pods report the address", given: first,
			during: func(pods cache.Indexer) error { return pods.Add(second) },
		},
		{
			name: "another pod has the address", given: first,
			during: func(pods cache.Indexer) error {
				_ = pods.Delete(first)
				return pods.Add(second)
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			factory := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
			f, err := newFilter(Options{Pods: netip.MustParsePrefix("10.77.0.0/20")}, factory)
			if err != nil {
				t.Fatal(err)
			}
			pods := factory.Core().V1().Pods().Informer().GetIndexer()
			if test.given != nil {
				_ = pods.Add(test.given)
			}
			if !test.noNamespace {
				namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "alpha"}}
				_ = factory.Core().V1().Namespaces().Informer().GetIndexer().Add(namespace)
			}
			known := podinfo.NewInformerProvider(
				factory.Core().V1().Pods(), factory.Core().V1().Namespaces(), nil, []podinfo.IPResolver{f.pods})
			f.engine = networkpolicy.NewPolicyEngine(known, []api.PolicyEvaluator{evaluator{before: func() {
				if test.during != nil {
					_ = test.during(pods)
				}
			}}})
			packet := network.Packet{SrcIP: net.IPv4(10, 77, 0, 11), DstIP: net.IPv4(203, 0, 113, 10)}
			if got := f.allows(t.Context(), packet); got != test.want {
				t.Errorf("got %t, want %t", got, test.want)
			}
		})
	}
}

func podWith(name, addr string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "alpha", Name: name},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: addr}}},
	}
}
