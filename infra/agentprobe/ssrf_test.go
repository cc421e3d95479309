package agentprobe

import (
	"context"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/shared/agent"
)

// internalAddresses lists addresses that are not public, in every notation that a dialer accepts.
func internalAddresses() []string {
	return strings.Fields(`
		0.0.0.0 0.0.0.1 0.255.255.255 10.0.0.1 10.128.0.2 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.254
		127.0.0.1 127.0.0.2
		127.127.127.127 127.255.255.254 169.254.0.1 169.254.169.252 169.254.169.253 169.254.169.254 169.254.170.2
		169.254.20.10 172.16.0.1
		172.17.0.1 172.20.0.1 172.31.255.255 192.0.0.1 192.0.0.8 192.0.0.170 192.0.0.192 192.0.2.1 192.88.99.1
		192.168.0.1 192.168.1.254
		192.168.255.255 198.18.0.1 198.19.255.254 198.51.100.7 203.0.113.7 224.0.0.1 224.0.0.251 233.252.0.1
		239.255.255.250 240.0.0.1
		250.1.2.3 255.255.255.254 255.255.255.255
		:: ::1 ::2 ::127.0.0.1 ::169.254.169.254 ::ffff:0.0.0.0 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::ffff:7f00:1
		::ffff:169.254.169.254
		::ffff:a9fe:a9fe ::ffff:192.168.0.1 ::ffff:172.16.0.1 ::ffff:100.64.0.1 ::ffff:224.0.0.1 ::ffff:255.255.255.255
		64:ff9b::7f00:1 64:ff9b::a00:1 64:ff9b::a9fe:a9fe 64:ff9b:1::1 64:ff9b:1:fffe::a9fe:a9fe 100::1 2001::1
		2001:0:4136:e378:8000:63bf:3fff:fdd2
		2001:db8::1 2001:db8:ffff::1 2002:7f00:1:: 2002:a00:1::1 2002:a9fe:a9fe:: 2002:c0a8:1::1 5f00::1 fc00::1 fd00::1
		fd00:ec2::254 fd20:ce::254
		fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fe80::1 fe80::1%eth0 fe80::a9fe:a9fe%1 febf::1 fec0::1 feff::1 ff00::1
		ff01::1 ff02::1 ff02::fb
		ff05::2 ff0e::1`)
}

// The agent's hostname resolves to each internal address, alone and after a public address.
func TestProbe_ConnectsToNoInternalAddress(t *testing.T) {
	t.Parallel()
	if len(internalAddresses()) < 80 {
		t.Fatalf("only %d vectors", len(internalAddresses()))
	}
	for _, text := range internalAddresses() {
		address := netip.MustParseAddr(text)
		for _, found := range [][]netip.Addr{{address}, {netip.MustParseAddr("34.117.59.81"), address}} {
			var lookups atomic.Int32
			p := newProber(Options{Addresses: addresses("http", "")},
				func(context.Context, string, string) ([]netip.Addr, error) {
					lookups.Add(1)
					return found, nil
				})
			// A connection that was tried would fail for another reason: there is nothing at most of these, and
			// something else at the rest.
			wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "dns", 0)
			if lookups.Load() != 1 {
				t.Errorf("%s: %d look-ups", text, lookups.Load())
			}
		}
	}
}

// The names try to change the meaning of the URL.
func TestProbe_ConnectsToTheAgentsHostnameOnly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"localhost", "127.0.0.1", "169.254.169.254", "metadata.google.internal", "[::1]", "http://evil.test/",
		"a@evil.test", "a:80", "a/b", "a\\b",
		"a?b", "a#b", "a%2eb", "a%00b", "..", "../../x", "a.evil.test.", "xn--n3h", "ａ．ｂ", "a。b",
		"a\r\nHost: evil.test", "a\tb", " ", "-", "--",
		"ⓛⓞⓒⓐⓛ", "0x7f000001", "2130706433", "017700000001", "kubernetes.default.svc", strings.Repeat("a.", 60),
		"a\u202eb", "☃",
	} {
		a := testAgent()
		a.Slug = agent.Slug(name)
		var asked []string
		p := newProber(Options{Addresses: addresses("https", "")},
			func(_ context.Context, _, host string) ([]netip.Addr, error) {
				asked = append(asked, host)
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			})
		wantUnhealthy(t, p.Probe(t.Context(), a), "dns", 0)
		want := a.Hostname(addresses("https", ""))
		if len(asked) != 1 || asked[0] != want || !strings.HasSuffix(want, ".cell.agents.test") ||
			strings.Count(want, ".") != 3 {
			t.Errorf("%q: asked for %q, want %q", name, asked, want)
		}
		if u, err := url.Parse(a.URL(addresses("https", ""), "/")); err != nil || u.Host != want || u.Path != "/" ||
			u.User != nil {
			t.Errorf("%q: the URL is %v, %v", name, u, err)
		}
		if id, ok := agent.IDFromHostname(want, "cell.agents.test"); !ok || id != a.ID {
			t.Errorf("%q: the hostname is of the agent %s", name, id)
		}
	}
}
