package function

import (
	"net/http"
	"time"
)

// The limits of NewServer.
const (
	// headerTimeout bounds how long a request's header may take.
	headerTimeout = 10 * time.Second
	// idleTimeout is how long a connection stays open between requests. It must exceed that of Google's proxies, or a
	// request is lost on a connection that the server is closing. Load balancers reuse a connection for up to 600
	// seconds, and servers behind them should wait for 620 (cloud.google.com/load-balancing/docs/https, "Timeouts and
	// retries"). Google publishes no figure for the proxy of Cloud Run, which is between both.
	idleTimeout = 620 * time.Second
	// headerBytes bounds a request's header to 64 KiB. net/http reads 4 KiB more than it is told.
	headerBytes = 60 << 10
)

// NewServer returns the HTTP server of functions: in deployed processes, in the local cloud and in tests. It waits for
// no client longer than its limits. A handler must not write the response while another goroutine reads the body.
func NewServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: boundWaits(h), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
	}
}
