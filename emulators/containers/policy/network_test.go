package policy_test

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// place is a network namespace.
type place struct{ fd int }

func newPlace(t testing.TB) place {
	t.Helper()
	var p place
	ended := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked, so that no other goroutine runs in the namespace
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			path := fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid())
			p.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Skipf("a network namespace cannot be made: %v", err)
	}
	t.Cleanup(func() { _ = unix.Close(p.fd) })
	p.must(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetUp(lo)
	})
	return p
}

// do calls f on a thread in the namespace. Sockets that f opens belong to the namespace.
func (p place) do(f func() error) error {
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		if err := unix.Setns(p.fd, unix.CLONE_NEWNET); err != nil {
			ended <- err
			return
		}
		ended <- f()
	}()
	return <-ended
}

func (p place) must(t testing.TB, f func() error) {
	t.Helper()
	if err := p.do(f); err != nil {
		t.Fatal(err)
	}
}

// Addresses of the node.
const (
	nodeAddress = "10.77.255.1"
	nodeDNS     = "169.254.20.10"
	gateway     = "10.77.0.1" // on the node's end of each pod's interface, as the plugin ptp does it
)

// testNetwork is a node with three places for pods and one for other hosts. Each address stands for a pod or a host.
type testNetwork struct {
	t             testing.TB // whose end closes the servers
	node, clients place
	places        map[string]place // of addresses

	mu   sync.Mutex
	open map[string]bool // addresses on which a server listens
	seen map[string]bool // flows that reached a server
}

func newNetwork(t testing.TB) *testNetwork {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	n := &testNetwork{
		t: t, node: newPlace(t), clients: newPlace(t), places: map[string]place{},
		open: map[string]bool{}, seen: map[string]bool{},
	}
	for _, addr := range []string{nodeAddress, nodeDNS, gateway} {
		n.places[addr] = n.node
	}
	n.node.must(t, func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		for _, addr := range []string{nodeAddress, nodeDNS} {
			if err := netlink.AddrAdd(lo, &netlink.Addr{IPNet: host(addr)}); err != nil {
				return err
			}
		}
		return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
	})
	n.connect(t, n.clients, "clients", between("10.77.0.11", "10.77.0.19")...)
	n.connect(t, newPlace(t), "servers", between("10.77.0.21", "10.77.0.29")...)
	n.connect(t, newPlace(t), "others", between("10.77.0.31", "10.77.0.39")...)
	n.connect(t, newPlace(t), "world", "203.0.113.10", "203.0.113.20", "10.99.0.10", "169.254.169.254", "35.191.0.10")
	return n
}

// connect links a place to the node and routes addresses to it, as the plugin ptp does it.
func (n *testNetwork) connect(t testing.TB, p place, name string, addrs ...string) {
	t.Helper()
	for _, addr := range addrs {
		n.places[addr] = p
	}
	n.node.must(t, func() error {
		link := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(p.fd),
		}
		if err := netlink.LinkAdd(link); err != nil {
			return err
		}
		return configure(name, []string{gateway}, addrs)
	})
	p.must(t, func() error {
		if err := configure("eth0", addrs, []string{gateway}); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{Gw: net.ParseIP(gateway)})
	})
}

func configure(name string, addrs, neighbors []string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	for _, addr := range addrs {
		if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: host(addr)}); err != nil {
			return err
		}
	}
	for _, addr := range neighbors {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Dst: host(addr)}
		if err := netlink.RouteAdd(route); err != nil {
			return err
		}
	}
	return nil
}

// serve echoes what it receives, and records who sent it.
func (n *testNetwork) serve(t testing.TB, network, addr string) {
	t.Helper()
	ctx := n.t.Context()
	key := network + addr
	if n.open[key] || network == "icmp" {
		return
	}
	n.open[key] = true
	n.places[addrOf(addr)].must(t, func() error {
		var listen net.ListenConfig
		if network == "udp" {
			packets, err := listen.ListenPacket(ctx, network, addr)
			if err != nil {
				return err
			}
			n.t.Cleanup(func() { _ = packets.Close() })
			go n.echoPackets(packets)
			return nil
		}
		listener, err := listen.Listen(ctx, network, addr)
		if err != nil {
			return err
		}
		n.t.Cleanup(func() { _ = listener.Close() })
		go n.echoStreams(listener)
		return nil
	})
}

func (n *testNetwork) echoPackets(packets net.PacketConn) {
	buffer := make([]byte, 1500)
	for {
		length, from, err := packets.ReadFrom(buffer)
		if err != nil {
			return
		}
		n.record("udp", from, packets.LocalAddr())
		_, _ = packets.WriteTo(buffer[:length], from)
	}
}

func (n *testNetwork) echoStreams(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		n.record("tcp", conn.RemoteAddr(), conn.LocalAddr())
		go func() {
			defer func() { _ = conn.Close() }()
			buffer := make([]byte, 1500)
			for {
				length, err := conn.Read(buffer)
				if err != nil {
					return
				}
				_, _ = conn.Write(buffer[:length])
			}
		}()
	}
}

func (n *testNetwork) record(network string, from, to net.Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[flow(network, netip.MustParseAddrPort(from.String()).Addr().String(), to.String())] = true
}

func (n *testNetwork) reached(network, from, to string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[flow(network, from, to)]
}

func flow(network, from, to string) string { return network + " " + from + " -> " + to }

func host(addr string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(addr).To4(), Mask: net.CIDRMask(32, 32)}
}

func between(first, last string) []string {
	var addrs []string
	for a := netip.MustParseAddr(first); a.Compare(netip.MustParseAddr(last)) <= 0; a = a.Next() {
		addrs = append(addrs, a.String())
	}
	return addrs
}
