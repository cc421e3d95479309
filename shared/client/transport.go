package client

import (
	"net/http"
	"sync"
	"time"
)

// The times after which a connection of HTTP/2 is closed: when nothing has arrived for pingAfter, and then not even the
// answer to a ping within pingTimeout.
const (
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
)

// defaultTransport is shared by the clients of a process, as http.DefaultTransport is.
var defaultTransport = sync.OnceValue(func() http.RoundTripper { return withPings(http.DefaultTransport) })

// withPings returns a copy of a transport that notices dead connections of HTTP/2. All requests to a server share one,
// and go on to use it after one of them got no answer: without pings, each repeat would wait for the connection that
// the sleep of a laptop, or another network, has cut. A transport of another type is returned as it is.
func withPings(base http.RoundTripper) http.RoundTripper {
	t, ok := base.(*http.Transport)
	if !ok {
		return base
	}
	t = t.Clone()
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout}
	return t
}
