package run

import (
	"net/http"
	"strings"
)

// BehindProxies removes the addresses of our own proxies from X-Forwarded-For, so that its last entry is the address
// that the first of them saw. Each proxy appends the address of its caller; entries that the client wrote come first.
// Without it, all clients behind a load balancer would share one address and its rate limits.
func BehindProxies(h http.Handler, hops int) http.Handler {
	if hops <= 0 {
		return h
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		chain := strings.Split(strings.Join(req.Header.Values("X-Forwarded-For"), ","), ",")
		if known := len(chain) - hops; known > 0 {
			req.Header.Set("X-Forwarded-For", strings.Join(chain[:known], ","))
		}
		h.ServeHTTP(w, req)
	})
}
