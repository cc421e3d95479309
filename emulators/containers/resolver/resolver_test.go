package resolver_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"agents.example/controlplane/emulators/containers/resolver"
)

// patience bounds every wait. Only a failing test reaches it.
const patience = 2 * time.Minute

func TestRun_AnswersOverUDPAndTCP(t *testing.T) {
	t.Parallel()
	server := start(t, nil, objects()...)
	for _, test := range []struct {
		name  string
		ask   string
		kind  uint16
		rcode int
		want  []string
	}{
		{name: "Service", ask: "api.tools.svc.cluster.local.", want: []string{"10.96.7.7"}},
		{name: "upper case", ask: "API.Tools.svc.CLUSTER.local.", want: []string{"10.96.7.7"}},
		{
			name: "headless Service has its ready endpoints of all slices", ask: "agent.one.svc.cluster.local.",
			want: []string{"10.77.0.5", "10.77.0.6", "10.77.0.7"},
		},
		{name: "headless Service without endpoints", ask: "down.one.svc.cluster.local.", rcode: dns.RcodeNameError},
		{name: "Service of another namespace", ask: "api.one.svc.cluster.local.", rcode: dns.RcodeNameError},
		{name: "namespace alone", ask: "tools.svc.cluster.local.", rcode: dns.RcodeNameError},
		{name: "below a Service", ask: "x.api.tools.svc.cluster.local.", rcode: dns.RcodeNameError},
		{name: "fixed name", ask: "control-plane.example.", want: []string{"203.0.113.20"}},
		{name: "fixed name has no AAAA", ask: "control-plane.example.", kind: dns.TypeAAAA},
		{name: "Service has no AAAA", ask: "api.tools.svc.cluster.local.", kind: dns.TypeAAAA},
		{name: "headless Service has no AAAA", ask: "agent.one.svc.cluster.local.", kind: dns.TypeAAAA},
		{name: "unknown name", ask: "nowhere.example.", rcode: dns.RcodeNameError},
		{
			name: "unknown name has no AAAA either", ask: "nowhere.example.", kind: dns.TypeAAAA,
			rcode: dns.RcodeNameError,
		},
	} {
		for _, network := range []string{"udp", "tcp"} {
			t.Run(test.name+"/"+network, func(t *testing.T) {
				t.Parallel()
				reply := ask(t, server, network, test.ask, cmp.Or(test.kind, dns.TypeA))
				if reply.Rcode != test.rcode {
					t.Errorf("got rcode %s, want %s", dns.RcodeToString[reply.Rcode], dns.RcodeToString[test.rcode])
				}
				if got := addresses(reply); !slices.Equal(got, test.want) {
					t.Errorf("got %v, want %v", got, test.want)
				}
			})
		}
	}
}

// A pod's search list makes a name in the cluster of every name of the internet. An upstream that does not answer must
// not delay them.
func TestRun_AsksUpstreamOnlyForNamesOutsideTheCluster(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	server := start(t, func(_ context.Context, query *dns.Msg) (*dns.Msg, error) {
		name := query.Question[0].Name
		asked <- name
		if name == "broken.example." {
			return nil, errors.New("no route")
		}
		record, err := dns.NewRR(name + " 60 IN A 198.51.100.7")
		reply := new(dns.Msg).SetReply(query)
		reply.Answer = append(reply.Answer, record)
		return reply, err
	}, objects()...)
	for _, name := range []string{
		"example.com.one.svc.cluster.local.", "example.com.svc.cluster.local.", "example.com.cluster.local.",
		"cluster.local.",
	} {
		if reply := ask(t, server, "udp", name, dns.TypeA); reply.Rcode != dns.RcodeNameError {
			t.Errorf("%s: got rcode %s, want NXDOMAIN", name, dns.RcodeToString[reply.Rcode])
		}
	}
	ask(t, server, "udp", "control-plane.example.", dns.TypeA)
	if len(asked) > 0 {
		t.Errorf("upstream was asked for %s", <-asked)
	}
	want := []string{"198.51.100.7"}
	if got := addresses(ask(t, server, "udp", "example.com.", dns.TypeA)); !slices.Equal(got, want) {
		t.Errorf("got %v from upstream, want %v", got, want)
	}
	if reply := ask(t, server, "udp", "broken.example.", dns.TypeA); reply.Rcode != dns.RcodeServerFailure {
		t.Errorf("got rcode %s when upstream fails, want SERVFAIL", dns.RcodeToString[reply.Rcode])
	}
}

func TestRun_TruncatesLongAnswersOverUDP(t *testing.T) {
	t.Parallel()
	many := make([]discoveryv1.Endpoint, 60)
	for i := range many {
		many[i].Addresses = []string{fmt.Sprintf("10.77.1.%d", i)}
	}
	server := start(t, nil, service("many", "one", corev1.ClusterIPNone), slice("many-1", "many", many...))
	reply := ask(t, server, "udp", "many.one.svc.cluster.local.", dns.TypeA)
	reply.Compress = true // as it was on its way
	if !reply.Truncated || reply.Len() > dns.MinMsgSize {
		t.Errorf("got %d bytes, truncated %t over UDP, want 512 at most and truncated", reply.Len(), reply.Truncated)
	}
	if got := len(ask(t, server, "tcp", "many.one.svc.cluster.local.", dns.TypeA).Answer); got != 60 {
		t.Errorf("got %d addresses over TCP, want 60", got)
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	for range 2 { // the second one needs the port that the first one gave back
		ctx, cancel := context.WithCancel(t.Context())
		err := resolver.Run(ctx, resolver.Options{Addr: addr, Client: fake.NewSimpleClientset(), Ready: cancel})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func start(
	t *testing.T, upstream func(context.Context, *dns.Msg) (*dns.Msg, error), known ...runtime.Object,
) netip.AddrPort {
	t.Helper()
	addr := freeAddr(t)
	ready, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ended <- resolver.Run(ctx, resolver.Options{
			Addr: addr, Client: fake.NewSimpleClientset(known...), Upstream: upstream,
			Names: map[string]netip.Addr{"Control-Plane.example": netip.MustParseAddr("203.0.113.20")},
			Ready: func() { close(ready) },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-time.After(patience):
		t.Fatalf("timed out after %s waiting for the resolver", patience)
	}
	return addr
}

// freeAddr returns an address of a random loopback host, so that no other process takes it before the resolver does.
func freeAddr(t *testing.T) netip.AddrPort {
	t.Helper()
	host := netip.AddrFrom4([4]byte{127, byte(1 + rand.N(254)), byte(rand.N(256)), byte(1 + rand.N(254))})
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(listener.Addr().String())
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	return addr
}

func ask(t *testing.T, server netip.AddrPort, network, name string, kind uint16) *dns.Msg {
	t.Helper()
	client := dns.Client{Net: network, Timeout: patience}
	reply, _, err := client.ExchangeContext(t.Context(), new(dns.Msg).SetQuestion(name, kind), server.String())
	if err != nil {
		t.Fatalf("%s over %s: %v", name, network, err)
	}
	return reply
}

func addresses(reply *dns.Msg) []string {
	var found []string
	for _, record := range reply.Answer {
		if a, ok := record.(*dns.A); ok {
			found = append(found, a.A.String())
		}
	}
	return found
}

func objects() []runtime.Object {
	no := false
	return []runtime.Object{
		service("api", "tools", "10.96.7.7"),
		service("agent", "one", corev1.ClusterIPNone),
		slice("agent-1", "agent", discoveryv1.Endpoint{Addresses: []string{"10.77.0.6"}}, discoveryv1.Endpoint{
			Addresses: []string{"10.77.0.8"}, Conditions: discoveryv1.EndpointConditions{Ready: &no},
		}),
		slice("agent-2", "agent", discoveryv1.Endpoint{Addresses: []string{"10.77.0.5", "10.77.0.7", "10.77.0.6"}}),
		slice("agent-ipv6", "agent", discoveryv1.Endpoint{Addresses: []string{"2001:db8::1"}}),
		slice("other-1", "other", discoveryv1.Endpoint{Addresses: []string{"10.77.0.9"}}),
		service("down", "one", corev1.ClusterIPNone),
	}
}

func service(name, namespace, address string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, Spec: corev1.ServiceSpec{ClusterIP: address},
	}
}

func slice(name, service string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "one", Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		Endpoints: endpoints,
	}
}
