package publicnet_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/infra/publicnet"
)

func TestPublic_RefusesSpecialAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.254", "127.0.0.1", "127.1.2.3",
		"169.254.0.1",
		"169.254.169.254", "169.254.169.252", "169.254.20.10", "172.16.0.1", "172.31.255.255", "192.0.0.1",
		"192.0.0.192", "192.0.2.1", "192.88.99.1",
		"192.168.0.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
		"240.0.0.1", "255.255.255.255", "34.118.224.1", "34.118.239.255", "::ffff:34.118.224.1",
		"::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:0.0.0.0",
		"64:ff9b::a9fe:a9fe", "64:ff9b::808:808",
		"64:ff9b:1::1", "100::1", "2001::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
		"fc00::1",
		"fd00:ec2::254", "fd20:ce::254", "fe80::1",
		"fe80::1%eth0", "2600:1901::1%eth0", "fec0::1", "ff02::1", "ff0e::1", "5f00::1", "3fff::1", "4000::1",
	} {
		if publicnet.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s counts as public", text)
		}
	}
	for _, text := range []string{
		"8.8.8.8", "34.117.59.81", "34.118.223.255", "34.118.240.0", "35.191.0.1", "100.63.0.1", "172.32.0.1",
		"192.169.0.1",
		"2600:1901::1", "2001:4860:4860::8888", "::ffff:8.8.8.8",
	} {
		if !publicnet.Public(netip.MustParseAddr(text)) {
			t.Errorf("%s does not count as public", text)
		}
	}
}

// errDialed ends every attempt to connect, after it was noted.
var errDialed = errors.New("dialed")

// An attacker may answer a second lookup with another address (DNS rebinding).
func TestDial_ConnectsOnlyToTheCheckedAddress(t *testing.T) {
	t.Parallel()
	loopback := func(a netip.Addr) bool { return a.IsLoopback() }
	for name, test := range map[string]struct {
		answers [][]string
		allow   func(netip.Addr) bool
		dialed  string // "" is none
	}{
		"public":             {answers: [][]string{{"34.117.59.81"}}, dialed: "34.117.59.81:443"},
		"rebound":            {answers: [][]string{{"34.117.59.81"}, {"169.254.169.254"}}, dialed: "34.117.59.81:443"},
		"inside":             {answers: [][]string{{"10.0.0.1"}}},
		"API server":         {answers: [][]string{{"34.118.224.1"}}},
		"one of two inside":  {answers: [][]string{{"34.117.59.81", "10.0.0.1"}}},
		"IPv4 first":         {answers: [][]string{{"2600:1901::1", "34.117.59.81"}}, dialed: "34.117.59.81:443"},
		"IPv4 in IPv6":       {answers: [][]string{{"::ffff:34.117.59.81"}}, dialed: "34.117.59.81:443"},
		"IPv6 only":          {answers: [][]string{{"2600:1901::1"}}, dialed: "[2600:1901::1]:443"},
		"metadata in IPv6":   {answers: [][]string{{"::ffff:169.254.169.254"}}},
		"metadata by NAT64":  {answers: [][]string{{"64:ff9b::a9fe:a9fe"}}},
		"loopback, and then": {answers: [][]string{{"127.0.0.1"}, {"34.117.59.81"}}},
		"allowed loopback":   {answers: [][]string{{"127.0.0.1"}}, allow: loopback, dialed: "127.0.0.1:443"},
		"loopback in IPv6":   {answers: [][]string{{"::ffff:127.0.0.1"}}, allow: loopback, dialed: "127.0.0.1:443"},
		"allowed, and not":   {answers: [][]string{{"127.0.0.1", "10.0.0.1"}}, allow: loopback},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lookups atomic.Int32
			dialed := ""
			d := publicnet.Dialer{
				Allow: test.allow,
				Find: func(context.Context, string, string) ([]netip.Addr, error) {
					n := int(lookups.Add(1))
					var found []netip.Addr
					for _, text := range test.answers[min(n, len(test.answers))-1] {
						found = append(found, netip.MustParseAddr(text))
					}
					return found, nil
				},
			}
			d.Control = func(_, address string, _ syscall.RawConn) error {
				dialed = address
				return errDialed
			}
			_, err := d.DialContext(t.Context(), "tcp", "research.agents.test:443")
			if dialed != test.dialed || lookups.Load() != 1 {
				t.Errorf("dialed %q after %d look-ups, want %q after one", dialed, lookups.Load(), test.dialed)
			}
			want := errDialed
			if test.dialed == "" {
				want = publicnet.ErrNotPublic
			}
			var unreachable *net.OpError
			if !errors.Is(err, want) && (test.dialed == "" || !errors.As(err, &unreachable)) {
				t.Errorf("error %v, want %v", err, want)
			}
		})
	}
}

// TestDial_GoesOnToTheNextAddress: of the servers of a name, one may be down.
func TestDial_GoesOnToTheNextAddress(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		found []string
		tried []string
		err   error
	}{
		"one of three is up": {
			found: []string{"127.0.0.3", "::1", "127.0.0.2", "127.0.0.1", "127.0.0.4"},
			tried: []string{"127.0.0.3", "127.0.0.2", "127.0.0.1"},
		},
		"none is up": {
			found: []string{"127.0.0.2", "127.0.0.3"}, tried: []string{"127.0.0.2", "127.0.0.3"}, err: errDialed,
		},
		"one is not public": {found: []string{"127.0.0.1", "10.0.0.1"}, err: publicnet.ErrNotPublic},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tried []string
			d := finding(row.found...)
			d.Control = func(_, address string, _ syscall.RawConn) error {
				host, _, _ := net.SplitHostPort(address)
				if tried = append(tried, host); host != "127.0.0.1" {
					return errDialed
				}
				return nil
			}
			conn, err := d.DialContext(t.Context(), "tcp", "api.example.com:"+port)
			if err == nil {
				err = conn.Close()
			}
			if !errors.Is(err, row.err) || !slices.Equal(tried, row.tried) {
				t.Errorf("tried %q, %v; want %q, %v", tried, err, row.tried, row.err)
			}
		})
	}
}

// finding returns a dialer that finds addresses of the machine under every name.
func finding(addresses ...string) publicnet.Dialer {
	return publicnet.Dialer{
		Allow: netip.Addr.IsLoopback,
		Find: func(context.Context, string, string) ([]netip.Addr, error) {
			var found []netip.Addr
			for _, text := range addresses {
				found = append(found, netip.MustParseAddr(text))
			}
			return found, nil
		},
	}
}

// TestDial_LeavesTimeForTheNextAddress: an address that does not answer must not take all of the time.
func TestDial_LeavesTimeForTheNextAddress(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[time.Duration][]time.Duration{
		12 * time.Second: {4 * time.Second, 6 * time.Second, 12 * time.Second},
		3 * time.Second:  {2 * time.Second, 2 * time.Second, 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []time.Duration
			d := finding("127.0.0.2", "127.0.0.3", "127.0.0.4")
			d.Timeout = timeout
			d.ControlContext = func(ctx context.Context, _, _ string, _ syscall.RawConn) error {
				end, _ := ctx.Deadline()
				got = append(got, time.Until(end))
				return errDialed
			}
			if _, err := d.DialContext(t.Context(), "tcp", "api.example.com:1"); !errors.Is(err, errDialed) {
				t.Error(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("in %s, the addresses get %s, want %s", timeout, got, want)
			}
		})
	}
}
