package issuer

import (
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// guardHost refuses requests for other hosts than the issuer's. A web page whose host name is made to resolve to this
// machine would otherwise be of the issuer's origin, and could get any token.
func (i *Issuer) guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHostOf(i.url, r.Host) {
			respond(w, http.StatusMisdirectedRequest,
				map[string]string{"error": "the issuer is at " + i.url + ", not at the host of this request"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isHostOf reports whether a Host header names this machine or the host of the issuer's URL. Names below localhost
// always resolve to this machine.
func isHostOf(issuer, host string) bool {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host {
		return false
	}
	name := strings.ToLower(u.Hostname())
	if own, err := url.Parse(issuer); err == nil && strings.EqualFold(own.Hostname(), name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return name == "localhost" || strings.HasSuffix(name, ".localhost") || err == nil && ip.IsLoopback()
}
