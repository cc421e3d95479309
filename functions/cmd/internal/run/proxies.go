package run

import (
	"net/http"
	"strings"
)

// BehindProxies has a handler see the address that the first of so many proxies of ours saw, and no proxy's: each
// appends the address that it was called from to X-Forwarded-For, and what a client has written there itself stands
// before. Without it, everybody behind a load balancer would share one address, and its limits.
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
