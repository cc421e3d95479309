package router

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// exchange is a request and its answer: it writes the answer, and remembers what is counted.
type exchange struct {
	http.ResponseWriter
	tunnels *tunnels
	body    clientBody
	// persistent means that the client's connection serves one request after the other, as HTTP/1.1 does.
	persistent bool
	began      time.Time
	// took is how long a WebSocket took to open. Its life is not a request's duration.
	took     time.Duration
	status   int
	hijacked bool
	complete bool
}

// Unwrap lets http.ResponseController flush.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
//
// An answer that begins before the request's body has ended is the last one of its connection, and says so. What is
// left of the body must not be read as another request. And in full duplex, net/http panics on such a connection when
// it awaits the next request, so the client would lose a request that it has already sent.
func (x *exchange) WriteHeader(status int) {
	if status >= http.StatusOK && x.status == 0 {
		x.status = status
		if x.persistent && x.body.unread() {
			x.Header().Set("Connection", "close")
		}
	}
	x.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (x *exchange) Write(b []byte) (int, error) {
	if x.status == 0 {
		x.WriteHeader(http.StatusOK)
	}
	return x.ResponseWriter.Write(b)
}

// Hijack implements http.Hijacker, for WebSockets.
func (x *exchange) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	hijacker, ok := x.ResponseWriter.(http.Hijacker)
	if !ok { // HTTP/2
		return nil, nil, http.ErrNotSupported
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		return nil, nil, err
	}
	x.hijacked, x.status, x.took = true, http.StatusSwitchingProtocols, time.Since(x.began)
	t := x.tunnels.add(conn, rw.Reader)
	return t, bufio.NewReadWriter(bufio.NewReader(t), bufio.NewWriter(t)), nil
}

// outcome returns the status and the duration that are counted. clientGone means that the client disconnected.
func (x *exchange) outcome(clientGone bool) (int, time.Duration) {
	switch {
	case x.hijacked:
		return x.status, x.took
	case !x.complete && !clientGone:
		return http.StatusBadGateway, time.Since(x.began) // the agent broke off its answer
	case x.status == 0:
		return clientClosed, time.Since(x.began)
	default:
		return x.status, time.Since(x.began)
	}
}

// clientBody is the body that a client sends. It remembers whether it ended, and whether the client broke it.
type clientBody struct {
	io.ReadCloser
	ended, failed atomic.Bool
}

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.ended.Store(true)
	case err != nil:
		b.failed.Store(true)
	}
	return n, err
}

// unread reports whether a part of the body may still have to be read.
func (b *clientBody) unread() bool { return b.ReadCloser != nil && !b.ended.Load() }
