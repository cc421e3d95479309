package clientip_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"agents.example/controlplane/shared/clientip"
)

const (
	current  = "current-secret-of-the-edge-0123456789"
	previous = "previous-secret-of-the-edge-012345678"
)

// newRequest returns a request with header lines, written as name and value in turn.
func newRequest(remoteAddr string, lines ...string) *http.Request {
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.RemoteAddr = remoteAddr
	for i := 0; i < len(lines); i += 2 {
		req.Header.Add(lines[i], lines[i+1])
	}
	return req
}

// addressOf returns the address that a handler behind the edge sees, and the request it sees.
func addressOf(e clientip.Edge, req *http.Request) (address string, seen *http.Request) {
	e.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		address, seen = clientip.Of(req), req
	})).ServeHTTP(httptest.NewRecorder(), req)
	return address, seen
}

func TestOf_BelievesOnlyProxies(t *testing.T) {
	t.Parallel()
	const (
		peer      = "169.254.1.1:4711"
		chain     = "X-Forwarded-For"
		edge      = clientip.AddressHeader
		secret    = clientip.SecretHeader
		client    = "198.51.100.1"
		forged    = "203.0.113.99"
		balancer  = "34.120.0.9"
		mapped    = "::ffff:198.51.100.1"
		unknown   = clientip.Unknown
		longChain = forged + ", " + client + ", " + balancer
	)
	for name, row := range map[string]struct {
		peer   string
		header []string
		want   string
	}{
		"the edge's address with its secret": {
			header: []string{chain, longChain, secret, current, edge, client}, want: client,
		},
		"the previous secret": {
			header: []string{secret, previous, edge, client}, want: client,
		},
		"an edge that appends lines": {
			header: []string{secret, "forged", edge, forged, secret, current, edge, client}, want: client,
		},
		"an edge that appends to a line": {
			header: []string{secret, "forged, " + current, edge, forged + "," + client}, want: client,
		},
		"the edge's address without its secret": {
			header: []string{chain, client, edge, forged}, want: client,
		},
		"a wrong secret": {
			header: []string{chain, client, edge, forged, secret, current + "x"}, want: client,
		},
		"an empty secret": {
			header: []string{chain, client, edge, forged, secret, ""}, want: client,
		},
		"the secret before a later line": {
			header: []string{chain, client, edge, forged, secret, current, secret, "x"}, want: client,
		},
		"the edge's address is no address": {
			header: []string{chain, client, secret, current, edge, "<script>"}, want: unknown,
		},
		"the edge sends no address": {
			header: []string{chain, client, secret, current}, want: unknown,
		},

		"the last hop":           {header: []string{chain, forged + ", " + client}, want: client},
		"the last of three hops": {header: []string{chain, forged + ", " + balancer + ", " + client}, want: client},
		"the last of two lines":  {header: []string{chain, forged, chain, client}, want: client},
		"hops without spaces":    {header: []string{chain, forged + "," + client}, want: client},
		"the last hop is garbage": {
			header: []string{chain, client + ", <script>alert(1)</script>"}, want: unknown,
		},
		"the last hop is empty": {header: []string{chain, client + ","}, want: unknown},
		"an empty chain":        {header: []string{chain, ""}, want: unknown},
		"mapped IPv4":           {header: []string{chain, mapped}, want: client},
		"IPv6 in a long form":   {header: []string{chain, "2001:DB8:0:0:0:0:0:7"}, want: "2001:db8::7"},
		"a zone":                {header: []string{chain, "fe80::1%<script>"}, want: "fe80::1"},

		"no proxy":               {peer: "203.0.113.7:5", want: "203.0.113.7"},
		"no proxy, IPv6":         {peer: "[2001:db8::7%eth0]:5", want: "2001:db8::7"},
		"no proxy, and no port":  {peer: "somewhere", want: unknown},
		"no proxy, no address":   {peer: "@", want: unknown},
		"the edge without chain": {header: []string{edge, forged}, want: "169.254.1.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if row.peer == "" {
				row.peer = peer
			}
			got, seen := addressOf(clientip.NewEdge([]string{current, previous}), newRequest(row.peer, row.header...))
			if got != row.want {
				t.Errorf("address = %q, want %q", got, row.want)
			}
			for _, name := range []string{edge, secret} {
				if values := seen.Header.Values(name); len(values) > 0 {
					t.Errorf("the handler sees %s: %q, want none", name, values)
				}
			}
		})
	}
}

// TestOf_WithoutAnEdgeBelievesNoSecret also covers requests that passed no Handler.
func TestOf_WithoutAnEdgeBelievesNoSecret(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"", "anything"} {
		req := newRequest("203.0.113.7:5", clientip.SecretHeader, secret, clientip.AddressHeader, "198.51.100.1")
		if got := clientip.Of(req); got != "203.0.113.7" {
			t.Errorf("Of = %q with the secret %q, want the peer's address", got, secret)
		}
		if got, _ := addressOf(clientip.NewEdge(nil), req); got != "203.0.113.7" {
			t.Errorf("address behind no edge = %q with the secret %q, want the peer's", got, secret)
		}
	}
}

func TestBucket_CountsWhatOneClientHas(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"198.51.100.1":          "198.51.100.1",
		"198.51.100.2":          "198.51.100.2",
		"::ffff:198.51.100.1":   "198.51.100.1",
		"2001:db8:1:2::1":       "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff::99": "2001:db8:1:2::/64",
		"2001:db8:1:3::1":       "2001:db8:1:3::/64",
		"fe80::1%eth0":          "fe80::/64",
		clientip.Unknown:        clientip.Unknown,
		"":                      clientip.Unknown,
		"<script>":              clientip.Unknown,
	} {
		if got := clientip.Bucket(address); got != want {
			t.Errorf("Bucket(%q) = %q, want %q", address, got, want)
		}
	}
}

// TestOf_KeepsNoHeaderAlive holds the addresses of requests with long headers.
func TestOf_KeepsNoHeaderAlive(t *testing.T) { //nolint:paralleltest // it measures the heap
	const requests, most = 1000, 2 << 20
	kept := make([][2]string, requests)
	before := heap()
	for i := range kept {
		hops := fmt.Sprintf("%s, 10.0.%d.%d", strings.Repeat("x", 50_000), i/256, i%256)
		address := clientip.Of(newRequest("192.0.2.1:5", "X-Forwarded-For", hops))
		kept[i] = [2]string{address, clientip.Bucket(address)}
	}
	if grown := heap() - before; grown > most {
		t.Errorf("%d addresses keep %d bytes alive, want at most %d", requests, grown, most)
	}
	runtime.KeepAlive(kept)
}

// heap returns the bytes of all live objects.
func heap() int64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
