package router

import (
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"

	"agents.example/controlplane/shared/dataplane"
)

// removeIdentity removes the headers that only the platform may set.
func removeIdentity(h http.Header) {
	for name := range h {
		if dataplane.IsIdentityHeader(name) {
			delete(h, name)
		}
	}
}

// localClient is the address of clients on the router's own machine. It is reserved for documentation (RFC 5737).
const localClient = "203.0.113.1"

// setForwarded tells the agent where a request came from.
//
// X-Forwarded-For is what the load balancer sent, with the load balancer's own address appended. Google's load balancer
// appends the client's address and its own to what the client sent, so the client's address is the third from the
// right. All further to the left is the client's claim. X-Forwarded-Proto is the load balancer's, which overwrites what
// the client sent.
//
// A client on the router's own machine has no address that means anything to an agent, and frameworks that look for the
// client skip it. There the router stands in for the load balancer, too, and writes one for documentation.
func setForwarded(p *httputil.ProxyRequest) {
	from, _, err := net.SplitHostPort(p.In.RemoteAddr)
	if err != nil {
		from = p.In.RemoteAddr
	}
	if address, err := netip.ParseAddr(from); err == nil && address.Unmap().IsLoopback() {
		from = localClient
	}
	if prior := p.In.Header["X-Forwarded-For"]; len(prior) > 0 {
		from = strings.Join(prior, ", ") + ", " + from
	}
	proto := "http"
	if sent := p.In.Header["X-Forwarded-Proto"]; len(sent) > 0 && sent[len(sent)-1] == "https" {
		proto = "https"
	}
	p.Out.Header["X-Forwarded-For"] = []string{from}
	p.Out.Header["X-Forwarded-Host"] = []string{p.Out.Host}
	p.Out.Header["X-Forwarded-Proto"] = []string{proto}
}
