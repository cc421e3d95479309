package policy_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"agents.example/controlplane/emulators/containers/policy"
)

const server = byPod + ":8080"

// A process that enforces policies, for the test that kills it.
const childVariable = "POLICY_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	err := policy.Run(context.Background(), policy.Options{
		Client: fake.NewSimpleClientset(cluster()...), Node: nodeName, Pods: podPrefix, Queue: queue,
		Ready: func() { _, _ = os.Stdout.WriteString("ready\n") },
	})
	_, _ = os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

func TestRun_ChangeOfPolicyRefusesNewConnectionsOnly(t *testing.T) {
	t.Parallel()
	e := enforce(t, cluster()...)
	e.serve(t, "tcp", server)
	conn, err := e.dial(t.Context(), "tcp", web, server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	deny := networkPolicy("by-pod", networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
	})
	policies := e.client.NetworkingV1().NetworkPolicies("alpha")
	if _, err := policies.Update(t.Context(), deny, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.until(t, web, server, false)
	if err := echo(conn, "tcp"); err != nil {
		t.Errorf("the connection from before the change ended: %v", err)
	}
	if err := policies.Delete(t.Context(), "by-pod", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	e.until(t, batch, server, true)
}

func TestRun_HoldsFirstPacketsUntilTheirPodIsKnown(t *testing.T) {
	t.Parallel()
	e := enforce(t, cluster()...)
	const to = unselected + ":53"
	e.serve(t, "udp", to)
	for _, test := range []struct {
		name, app, from string
		want            bool
	}{
		{name: "allowed", app: "other", from: "10.77.0.18", want: true},
		{name: "denied by the policies of the pod", app: "locked", from: "10.77.0.19"},
	} {
		t.Run(test.name, func(t *testing.T) {
			queued := e.queued(t)
			answered := make(chan bool, 1)
			go func() { answered <- e.allows(t, "udp", test.from, to) }() // one packet, which is not repeated
			eventually(t, "a packet in the queue", func() bool { return e.queued(t) > queued })
			// When a later packet has its verdict, the program has looked for the pod of the first one.
			if err := e.exchange(t.Context(), "udp", web, to); err != nil {
				t.Fatal(err)
			}
			late := pod("alpha", "late-"+test.app, test.app, test.from)
			if _, err := e.client.CoreV1().Pods("alpha").Create(t.Context(), late, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if got := <-answered; got != test.want {
				t.Errorf("got allowed %t, want %t", got, test.want)
			}
		})
	}
}

// The kernel judges the source address before the queue does, so a pod cannot speak for another one.
func TestRun_DropsSpoofedAndMalformedPacketsAndIPv6(t *testing.T) {
	t.Parallel()
	e := &enforced{testNetwork: newNetwork(t)}
	const outside, another, inside = "192.0.2.7", "10.77.0.31", "fd00::2"
	e.node.must(t, func() error { return addIPv6("clients", "fd00::1/64") })
	e.clients.must(t, func() error { return addIPv6("eth0", inside+"/64") })
	e.clients.must(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return errors.Join(netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(outside)}),
			netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(another)}))
	})
	e.places["fd00::1"] = e.node
	sends := []struct{ from, to string }{{outside, nodeDNS}, {another, nodeDNS}, {inside, "[fd00::1]"}}
	for _, s := range sends { // without policies, they arrive
		e.serve(t, "udp", s.to+":53")
		e.serve(t, "udp", s.to+":54")
		eventually(t, flow("udp", s.from, s.to), func() bool {
			e.send(t, s.from, s.to+":54")
			return e.reached("udp", s.from, s.to+":54")
		})
	}
	e.start(t, append(cluster(), pod("alpha", "another", "another", another))...)
	for _, s := range sends {
		e.send(t, s.from, s.to+":53")
	}
	e.clients.must(t, func() error { return sendShort(t.Context(), web, unselected) })
	for _, to := range []string{nodeDNS + ":53", unselected + ":53"} { // later packets of the same interface
		if !e.allows(t, "udp", web, to) {
			t.Errorf("%s is denied", flow("udp", web, to))
		}
	}
	for _, s := range sends {
		if e.reached("udp", s.from, s.to+":53") {
			t.Errorf("%s arrived", flow("udp", s.from, s.to+":53"))
		}
	}
}

func TestRun_RemovesItsRulesAtTheEnd(t *testing.T) {
	t.Parallel()
	e := enforce(t, cluster()...)
	if e.allows(t, "tcp", web, closed+":8080") {
		t.Fatal("the policy is not enforced")
	}
	e.end()
	e.node.must(t, func() error {
		c, err := nftables.New()
		if err != nil {
			return err
		}
		tables, err := c.ListTables()
		if len(tables) > 0 {
			t.Errorf("the table %s is left", tables[0].Name)
		}
		return err
	})
	if !e.allows(t, "tcp", web, closed+":8080") {
		t.Error("denied without rules")
	}
}

func TestRun_LetsNoNewConnectionBeginAfterItsProcessDied(t *testing.T) {
	t.Parallel()
	e := &enforced{testNetwork: newNetwork(t)}
	e.serve(t, "tcp", server)
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	e.node.must(t, child.Start)
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "ready\n" {
		_ = child.Wait()
		t.Skipf("the program did not start: %v", err)
	}
	conn, err := e.dial(t.Context(), "tcp", web, server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, output)
	_ = child.Wait()
	refused := e.repeatFirstPacket(t, web, server)
	if err := echo(conn, "tcp"); err != nil { // later packets of the same interface
		t.Errorf("a connection that existed ended: %v", err)
	}
	if err := refused(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v from a connection without the program, want no answer", err)
	}
	e.start(t, cluster()...) // replaces the rules that are left
	if !e.allows(t, "tcp", web, server) || e.allows(t, "tcp", batch, server) {
		t.Error("the next process does not enforce the policies")
	}
}

// repeatFirstPacket begins a connection, and waits until TCP has repeated its first packet. end ends the attempt.
func (e *enforced) repeatFirstPacket(t *testing.T, from, to string) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	sockets, ended := make(chan syscall.RawConn, 1), make(chan error, 1)
	dialer := net.Dialer{
		LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)},
		Control:   func(_, _ string, c syscall.RawConn) error { sockets <- c; return nil },
	}
	go func() {
		ended <- e.places[from].do(func() error {
			conn, err := dialer.DialContext(ctx, "tcp", to)
			if err == nil {
				_ = conn.Close()
			}
			return err
		})
	}()
	socket := <-sockets
	eventually(t, "TCP to repeat its first packet", func() (repeated bool) {
		if err := socket.Control(func(fd uintptr) {
			info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
			repeated = err == nil && info.Total_retrans > 0
		}); err != nil {
			t.Fatalf("the connection ended before that: %v", err)
		}
		return repeated
	})
	return func() error {
		cancel()
		return <-ended
	}
}

// until tries new connections until they are allowed, or denied.
func (e *enforced) until(t *testing.T, from, to string, want bool) {
	t.Helper()
	eventually(t, flow("tcp", from, to), func() bool { return e.allows(t, "tcp", from, to) == want })
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for: %s", patience, what)
		}
	}
}

// queued returns the number of the last packet that the kernel queued.
func (e *enforced) queued(t *testing.T) (number int) {
	t.Helper()
	e.node.must(t, func() error {
		b, err := os.ReadFile("/proc/thread-self/net/netfilter/nfnetlink_queue")
		if err != nil {
			return err
		}
		const column = 7 // id_sequence
		number, err = strconv.Atoi(strings.Fields(string(b))[column])
		return err
	})
	return number
}

// send sends one packet and does not wait for an answer.
func (e *enforced) send(t *testing.T, from, to string) {
	t.Helper()
	var conn net.Conn
	e.clients.must(t, func() (err error) {
		source := netip.AddrPortFrom(netip.MustParseAddr(from), 0)
		dialer := net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(source)}
		conn, err = dialer.DialContext(t.Context(), "udp", to)
		return err
	})
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
}

// sendShort sends a packet of TCP without the end of its header, which the library's parser cannot read.
func sendShort(ctx context.Context, from, to string) error {
	dialer := net.Dialer{LocalAddr: &net.IPAddr{IP: net.ParseIP(from)}}
	conn, err := dialer.DialContext(ctx, "ip4:tcp", to)
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte{0, 80, 0, 80})
	return errors.Join(err, conn.Close())
}

func addIPv6(name, prefix string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	addr, err := netlink.ParseAddr(prefix)
	if err != nil {
		return err
	}
	addr.Flags = unix.IFA_F_NODAD // usable without a wait
	return netlink.AddrAdd(link, addr)
}

// TestRun_OutlivesPodsThatDisappear deletes the network interface of a pod whose packet waits for the pod to be known.
// The verdict then finds no packet.
func TestRun_OutlivesPodsThatDisappear(t *testing.T) {
	t.Parallel()
	e := enforce(t, cluster()...)
	const unknown = "10.77.0.39"
	conn, err := e.dial(t.Context(), "udp", unknown, "203.0.113.10:53")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // it is UDP
	queued := e.queued(t)
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a packet in the queue", func() bool { return e.queued(t) > queued })
	e.node.must(t, func() error {
		link, err := netlink.LinkByName("others")
		if err != nil {
			return err
		}
		return netlink.LinkDel(link)
	})
	select {
	case p := <-e.denied:
		if p.SrcIP.String() != unknown {
			t.Errorf("a packet of %s was denied, want one of %s", p.SrcIP, unknown)
		}
	case <-time.After(patience):
		t.Fatal("timed out waiting for the verdict")
	}
	if !e.allows(t, "tcp", web, server) {
		t.Error("after the verdict, an allowed connection is refused")
	}
}
