package webhooksender

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/shared/webhook"
)

// attempts notes the addresses that a sender tries to connect to, and lets no connection be made.
type attempts struct {
	mu     sync.Mutex
	dialed []string
}

var errNotInTests = errors.New("tests connect to nothing")

func (a *attempts) control(_, address string, _ syscall.RawConn) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dialed = append(a.dialed, address)
	return errNotInTests
}

func (a *attempts) sender(find publicnet.Lookup) *Sender {
	return newSender(Options{Find: find}, net.Dialer{Control: a.control})
}

// internalAddresses lists addresses that are not public, in every notation.
func internalAddresses() []string {
	return strings.Fields(`
		0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.1 10.128.0.2 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.254
		127.0.0.1 127.0.0.2 127.127.127.127 127.255.255.254
		169.254.0.1 169.254.169.252 169.254.169.253 169.254.169.254 169.254.170.2 169.254.20.10
		172.16.0.1 172.17.0.1 172.20.0.1 172.31.255.255
		192.0.0.1 192.0.0.8 192.0.0.170 192.0.0.192 192.0.2.1 192.88.99.1 192.168.0.1 192.168.1.254 192.168.255.255
		198.18.0.1 198.19.255.254 198.51.100.7 203.0.113.7
		224.0.0.1 224.0.0.251 233.252.0.1 239.255.255.250 240.0.0.1 250.1.2.3 255.255.255.254 255.255.255.255
		:: ::1 ::2 ::127.0.0.1 ::169.254.169.254
		::ffff:0.0.0.0 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:169.254.169.254 ::ffff:a9fe:a9fe
		::ffff:192.168.0.1 ::ffff:172.16.0.1 ::ffff:100.64.0.1 ::ffff:224.0.0.1 ::ffff:255.255.255.255
		64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b::a9fe:a9fe 64:ff9b::808:808 64:ff9b:1::1 64:ff9b:1:fffe::a9fe:a9fe
		100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:10::1 2001:db8::1 2001:db8:ffff::1 3fff::1
		2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 2002:c0a8:1::1 4000::1 5f00::1
		fc00::1 fd00::1 fd00:ec2::254 fd20:ce::254 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff
		fe80::1 fe80::1%eth0 fe80::a9fe:a9fe%1 febf::1 fec0::1 feff::1 ff00::1 ff01::1 ff02::1 ff02::fb ff05::2 ff0e::1`)
}

// The receiver's name resolves to each internal address: alone, and with a public address before or after it.
func TestSend_ConnectsToNoInternalAddress(t *testing.T) {
	t.Parallel()
	if n := len(internalAddresses()); n < 80 {
		t.Fatalf("only %d vectors, want at least 80", n)
	}
	public := netip.MustParseAddr("34.117.59.81")
	for _, text := range internalAddresses() {
		address := netip.MustParseAddr(text)
		for _, found := range [][]netip.Addr{{address}, {public, address}, {address, public}} {
			var a attempts
			s := a.sender(func(context.Context, string, string) ([]netip.Addr, error) { return found, nil })
			got := s.Send(t.Context(), message(t, "https://hooks.example.com/"))
			if got.Reason != webhook.ReasonNotPublic || len(a.dialed) != 0 {
				t.Errorf("%v: %+v after dialing %v, want not_public without a connection", found, got, a.dialed)
			}
		}
	}
}

// The control of the test above: the same sender does connect to a public address.
func TestSend_ConnectsToThePublicAddress(t *testing.T) {
	t.Parallel()
	var a attempts
	got := a.sender(always("34.117.59.81")).Send(t.Context(), message(t, "https://hooks.example.com:8443/"))
	if got.Reason != webhook.ReasonConnect || len(a.dialed) != 1 || a.dialed[0] != "34.117.59.81:8443" {
		t.Errorf("%+v after dialing %v, want one attempt at 34.117.59.81:8443", got, a.dialed)
	}
}

// A URL that an earlier release accepted is checked again.
func TestSend_RefusesHostileURLs(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"http://hooks.example.com/", "https://127.0.0.1/", "https://2130706433/", "https://0x7f.1/", "https://[::1]/",
		"https://localhost/", "https://user@hooks.example.com/", "https://hooks.example.com:22/",
		"https://metadata.google.internal/", "https://kubernetes.default.svc/", "https://hooks.example.com./",
		"https://hööks.example.com/", "file:///etc/passwd", "https://hooks.example.com\\@10.0.0.1/", "::",
	} {
		var a attempts
		lookups := 0
		s := a.sender(func(context.Context, string, string) ([]netip.Addr, error) {
			lookups++
			return []netip.Addr{netip.MustParseAddr("34.117.59.81")}, nil
		})
		if got := s.Send(t.Context(), message(t, raw)); got.Reason != webhook.ReasonURL || lookups+len(a.dialed) != 0 {
			t.Errorf("%q: %+v after %d look-ups and dialing %v, want neither", raw, got, lookups, a.dialed)
		}
	}
}

// dnsServer is a DNS server. Its answers to questions of one type follow each other; the last one stays.
type dnsServer struct {
	conn net.PacketConn
	mu   sync.Mutex
	a    [][]string
	aaaa [][]string
}

func startDNS(t *testing.T, a, aaaa [][]string) *dnsServer {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &dnsServer{conn: conn, a: a, aaaa: aaaa}
	var done sync.WaitGroup
	done.Go(func() { s.serve(t) })
	t.Cleanup(func() {
		_ = conn.Close()
		done.Wait()
	})
	return s
}

// lookup asks the server, and no other.
func (s *dnsServer) lookup() publicnet.Lookup {
	r := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", s.conn.LocalAddr().String())
	}}
	return r.LookupNetIP
}

func (s *dnsServer) serve(t *testing.T) {
	buffer := make([]byte, 1<<12)
	for {
		n, from, err := s.conn.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		answer, err := s.answer(buffer[:n])
		if err == nil {
			_, err = s.conn.WriteTo(answer, from)
		}
		if err != nil {
			t.Errorf("answer a question: %v", err)
		}
	}
}

func (s *dnsServer) answer(question []byte) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(question); err != nil {
		return nil, err
	}
	q := m.Questions[0]
	m.Header = dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}
	m.Additionals = nil
	header := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 0}
	for _, text := range s.next(q.Type) {
		address := netip.MustParseAddr(text)
		var body dnsmessage.ResourceBody = &dnsmessage.AAAAResource{AAAA: address.As16()}
		if address.Is4() {
			body = &dnsmessage.AResource{A: address.As4()}
		}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: body})
	}
	return m.Pack()
}

// next returns the addresses of the next answer.
func (s *dnsServer) next(of dnsmessage.Type) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := &s.a
	if of == dnsmessage.TypeAAAA {
		answers = &s.aaaa
	}
	if len(*answers) == 0 {
		return nil
	}
	first := (*answers)[0]
	if len(*answers) > 1 {
		*answers = (*answers)[1:]
	}
	return first
}

// An attacker's DNS server answers a public address when the name is checked, and another one when it is dialed.
func TestSend_IsSafeFromDNSRebinding(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, aaaa [][]string
		dialed  string
		want    webhook.Reason
	}{
		"public, then metadata": {
			a:      [][]string{{"34.117.59.81"}, {"169.254.169.254"}},
			dialed: "34.117.59.81:443", want: webhook.ReasonConnect,
		},
		"public, then loopback": {
			a: [][]string{{"34.117.59.81"}, {"127.0.0.1"}}, dialed: "34.117.59.81:443", want: webhook.ReasonConnect,
		},
		"mixed": {a: [][]string{{"34.117.59.81", "10.0.0.1"}}, want: webhook.ReasonNotPublic},
		"mixed across types": {
			a: [][]string{{"34.117.59.81"}}, aaaa: [][]string{{"::1"}}, want: webhook.ReasonNotPublic,
		},
		"private, then not":   {a: [][]string{{"10.0.0.1"}, {"34.117.59.81"}}, want: webhook.ReasonNotPublic},
		"IPv4 in IPv6":        {aaaa: [][]string{{"::ffff:169.254.169.254"}}, want: webhook.ReasonNotPublic},
		"IPv4 through NAT64":  {aaaa: [][]string{{"64:ff9b::a9fe:a9fe"}}, want: webhook.ReasonNotPublic},
		"metadata over IPv6":  {aaaa: [][]string{{"fd20:ce::254"}}, want: webhook.ReasonNotPublic},
		"no address anywhere": {want: webhook.ReasonDNS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a attempts
			s := a.sender(startDNS(t, c.a, c.aaaa).lookup())
			got := s.Send(t.Context(), message(t, "https://hooks.example.com/"))
			if dialed := strings.Join(a.dialed, " "); got.Reason != c.want || dialed != c.dialed {
				t.Errorf("%+v after dialing %q, want %s after %q", got, dialed, c.want, c.dialed)
			}
			if got.Reason == webhook.ReasonNotPublic {
				return
			}
			// The next attempt looks the name up again, and meets the second answer.
			again := s.Send(t.Context(), message(t, "https://hooks.example.com/"))
			if len(c.a) > 1 && (again.Reason != webhook.ReasonNotPublic || strings.Join(a.dialed, " ") != c.dialed) {
				t.Errorf("the next attempt: %+v after dialing %q, want not_public", again, a.dialed)
			}
		})
	}
}
