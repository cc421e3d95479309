package policy_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/kube-network-policies/pkg/network"

	"agents.example/controlplane/emulators/containers/policy"
)

const (
	patience = 2 * time.Minute // bounds every wait; only a failing test reaches it
	queue    = 7
	nodeName = "real-0"
)

var podPrefix = netip.MustParsePrefix("10.77.0.0/20")

// enforced is a network whose node runs the program.
type enforced struct {
	*testNetwork
	client *fake.Clientset
	denied chan network.Packet
	end    func() // ends the program and waits for it
}

func enforce(t testing.TB, objects ...runtime.Object) *enforced {
	t.Helper()
	e := &enforced{testNetwork: newNetwork(t)}
	e.start(t, objects...)
	return e
}

func (e *enforced) start(t testing.TB, objects ...runtime.Object) {
	t.Helper()
	e.client, e.denied = fake.NewSimpleClientset(objects...), make(chan network.Packet, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- e.node.do(func() error {
			return policy.Run(ctx, policy.Options{
				Client: e.client, Node: nodeName, Pods: podPrefix, Queue: queue,
				Ready:  func() { close(ready) },
				Denied: func(p network.Packet) { e.denied <- p },
			})
		})
	}()
	e.end = func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			ended <- nil
		case <-time.After(patience):
			t.Errorf("timed out after %s waiting for the end of the program", patience)
		}
	}
	t.Cleanup(func() { e.end() })
	select {
	case <-ready:
	case err := <-ended:
		ended <- nil
		t.Skipf("the kernel cannot queue packets: %v", err)
	case <-time.After(patience):
		t.Fatalf("timed out after %s waiting for the program", patience)
	}
}

// allows tries whether a packet gets an answer, until it has one or the program denies it.
func (e *enforced) allows(t testing.TB, protocol, from, to string) bool {
	t.Helper()
	if e.places[from] == e.places[addrOf(to)] && e.places[from] != e.node {
		t.Fatalf("%s does not pass the node", flow(protocol, from, to))
	}
	e.serve(t, protocol, to)
	for len(e.denied) > 0 {
		<-e.denied
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	answered := make(chan error, 1)
	go func() { answered <- e.exchange(ctx, protocol, from, to) }()
	for {
		select {
		case err := <-answered:
			if err != nil {
				t.Fatalf("%s: neither answered nor denied: %v", flow(protocol, from, to), err)
			}
			return true
		case p := <-e.denied:
			if p.SrcIP.String() == from && p.DstIP.String() == addrOf(to) && p.DstPort == portOf(to) {
				cancel()
				return <-answered == nil
			}
		}
	}
}

// exchange sends something from an address to another one and waits for the answer.
func (e *enforced) exchange(ctx context.Context, protocol, from, to string) error {
	conn, err := e.dial(ctx, protocol, from, to)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	return echo(conn, protocol)
}

func (e *enforced) dial(ctx context.Context, protocol, from, to string) (conn net.Conn, err error) {
	source := net.ParseIP(from)
	var dialer net.Dialer
	switch protocol {
	case "tcp":
		dialer.LocalAddr = &net.TCPAddr{IP: source}
	case "udp":
		dialer.LocalAddr = &net.UDPAddr{IP: source}
	case "icmp":
		protocol, to, dialer.LocalAddr = "ip4:icmp", addrOf(to), &net.IPAddr{IP: source}
	}
	err = e.places[from].do(func() error {
		conn, err = dialer.DialContext(ctx, protocol, to)
		return err
	})
	return conn, err
}

func echo(conn net.Conn, protocol string) error {
	message := []byte("hello")
	if protocol == "icmp" {
		message = []byte{8, 0, 0, 0, 0, 1, 0, 1} // echo request
		binary.BigEndian.PutUint16(message[2:], ^uint16(0x0800+1+1))
	}
	if _, err := conn.Write(message); err != nil {
		return err
	}
	length, err := conn.Read(make([]byte, 1500))
	if err == nil && length < len(message) {
		return errors.New("the answer is too short")
	}
	return err
}

func addrOf(to string) string { return netip.MustParseAddrPort(to).Addr().String() }
func portOf(to string) int    { return int(netip.MustParseAddrPort(to).Port()) }
