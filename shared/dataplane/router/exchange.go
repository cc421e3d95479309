package router

import (
	"bufio"
	"net"
	"net/http"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/duplex"
)

// exchange is a request and its answer: it writes the answer, and remembers what is counted.
type exchange struct {
	*duplex.Writer
	tunnels *tunnels
	began   time.Time
	// took is how long a WebSocket took to open. Its life is not a request's duration.
	took     time.Duration
	hijacked bool
	complete bool
	// public is true for an answer to a request that needed no credential.
	public bool
	// answered is called, perhaps more than once, when the agent has answered.
	answered func()
	// accepted is called if the answer shows that the agent accepts the client; nil if no answer does.
	accepted func()
}

type exchangeKey struct{}

// notePublic takes the front's word from an answer that the request needed no credential.
func notePublic(res *http.Response) error {
	if res.Header[dataplane.HeaderPublic] == nil {
		return nil
	}
	res.Header.Del(dataplane.HeaderPublic)
	if x, ok := res.Request.Context().Value(exchangeKey{}).(*exchange); ok {
		x.public = true
	}
	return nil
}

// WriteHeader implements http.ResponseWriter.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK {
		x.answered()
	}
	if x.accepted != nil && !x.public && status >= http.StatusOK && accepts(status) {
		x.accepted()
	}
	x.Writer.WriteHeader(status)
}

// Hijack implements http.Hijacker, for WebSockets.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(x.Writer).Hijack()
	if err != nil { // HTTP/2 does not support it
		return nil, nil, err
	}
	x.hijacked, x.took = true, time.Since(x.began)
	x.answered()
	if x.accepted != nil && !x.public {
		x.accepted()
	}
	t := x.tunnels.add(conn, rw.Reader)
	return t, bufio.NewReadWriter(bufio.NewReader(t), bufio.NewWriter(t)), nil
}

// outcome returns the status and the duration that are counted. clientGone means that the client disconnected.
func (x *exchange) outcome(clientGone bool) (int, time.Duration) {
	switch {
	case x.hijacked:
		return http.StatusSwitchingProtocols, x.took
	case !x.complete && !clientGone:
		return http.StatusBadGateway, time.Since(x.began) // the agent broke off its answer
	case x.Status() == 0:
		return clientClosed, time.Since(x.began)
	default:
		return x.Status(), time.Since(x.began)
	}
}
