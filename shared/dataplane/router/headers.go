package router

import (
	"net"
	"net/http"
	"net/http/httputil"
	"strings"

	"agents.example/controlplane/shared/dataplane"
)

// isIdentityHeader reports whether proxies use a header to pass on who the user is or where a request came from.
// Clients may not send such headers: an agent would believe that the front did.
func isIdentityHeader(name string) bool {
	for _, h := range [...]string{
		"x-forwarded-", "x-auth-request-", "x-authenticated-", "x-remote-", "x-goog-authenticated-user-",
		"x-goog-iap-", "remote-",
	} {
		if dataplane.HasHeaderPrefix(name, h) {
			return true
		}
	}
	for _, h := range [...]string{
		"forwarded", "x-user", "x-real-ip", "x-client-ip", "true-client-ip", "x-original-host", "x-webauth-user",
		"x-serverless-authorization",
	} {
		if dataplane.IsHeader(name, h) {
			return true
		}
	}
	return false
}

// removeIdentity removes the headers that only the platform may set.
func removeIdentity(h http.Header) {
	for name := range h {
		if isIdentityHeader(name) {
			delete(h, name)
		}
	}
}

// setForwarded tells the agent where a request came from.
//
// X-Forwarded-For is what the load balancer sent, with the load balancer's own address appended. Google's load balancer
// appends the client's address and its own to what the client sent, so the client's address is the third from the
// right. All further to the left is the client's claim. X-Forwarded-Proto is the load balancer's, which overwrites what
// the client sent.
func setForwarded(p *httputil.ProxyRequest) {
	from, _, err := net.SplitHostPort(p.In.RemoteAddr)
	if err != nil {
		from = p.In.RemoteAddr
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
