// Package intake bounds what clients make a server of HTTP/1 hold before it handles their requests: the connections,
// the header of each request, and the unfinished headers of all connections together. It also bounds the headers of the
// answers that a client of HTTP/1 gets. It bounds neither requests that are handled nor HTTP/2, whose headers net/http
// bounds. And it lets a reverse proxy answer a request while it still reads the request's body.
package intake

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// FreeCost is the cost of an unfinished header that each connection may hold without a share of Limits.Unfinished. It
// is more than that of almost all requests.
const FreeCost = 8 << 10

// errFull means that the unfinished headers of all connections take too much memory.
var errFull = errors.New("too many unfinished headers")

// Limits bound what clients can use.
type Limits struct {
	// Connections is the number of connections. Further ones are answered with 503.
	Connections int
	// Unfinished bounds the cost of all headers that are arriving, without FreeCost of each.
	Unfinished int64
	// Shared means that the address of a connection is its client's, so that Unfinished is divided as Shares divides.
	Shared bool
	// HTTP2 admits connections that begin with the preface of HTTP/2, and does not count what they send.
	HTTP2 bool
}

// Listener is a net.Listener whose connections are bounded.
type Listener struct {
	net.Listener
	limits     Limits
	open       atomic.Int64
	unfinished atomic.Int64 // of all addresses, unless limits.Shared
	shares     Shares       // of each, if limits.Shared
}

// Listen bounds the connections of a listener. They belong to a server that Bound has prepared.
func Listen(l net.Listener, limits Limits) *Listener {
	return &Listener{Listener: l, limits: limits, shares: Shares{Budget: limits.Unfinished}}
}

type connKey struct{}

// Bound prepares a server, so that its connections know when a header begins and when a request is handled.
func Bound(s *http.Server) {
	s.MaxHeaderBytes = MaxHeader // for HTTP/2
	s.ConnState = func(c net.Conn, state http.ConnState) {
		if c, ok := c.(*conn); ok && state == http.StateIdle {
			c.expect()
		}
	}
	s.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, c)
	}
	h := s.Handler
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if c, ok := req.Context().Value(connKey{}).(*conn); ok {
			c.end() // the header may have arrived with the request before
		}
		h.ServeHTTP(w, req)
	})
}

// Answers that the server has no part in. They are complete.
const (
	plain = "Connection: close\r\nContent-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\n" +
		"Cache-Control: no-store\r\n\r\n"
	busyAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" + plain +
		"Too many connections. Retry.\n"
	fullAnswer = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n" + plain +
		"Too many clients send large headers. Retry.\n"
)

// largeAnswer says what is admitted.
func largeAnswer() string {
	return "HTTP/1.1 431 Request Header Fields Too Large\r\n" + plain +
		fmt.Sprintf("The header of a request may have %d KiB and %d lines.\n", MaxHeader>>10, MaxLines)
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= int64(l.limits.Connections) {
			return &conn{Conn: c, listener: l, closed: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write([]byte(busyAnswer)) // fits the send buffer of a new connection
		_ = c.Close()
	}
}

// conn is a client's connection.
type conn struct {
	net.Conn
	listener *Listener
	closed   func()

	mu   sync.Mutex
	head head
	// held is the connection's share of Limits.Unfinished.
	held  int64
	http2 bool // for the rest of its life
}

// expect means that the next bytes are those of another request.
func (c *conn) expect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.http2 {
		c.head = head{}
	}
}

// end means that the next bytes belong to no header.
func (c *conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head.ended = true
	c.hold(0)
}

// Read implements net.Conn. If the header exceeds a limit, it answers the client and fails.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n == 0 {
		return n, err
	}
	switch why := c.count(p[:n]); {
	case why == nil:
		return n, err
	case errors.Is(why, ErrHeader):
		return 0, c.refuse(largeAnswer(), why, p)
	default:
		return 0, c.refuse(fullAnswer, why, p)
	}
}

// count measures what arrived, if it belongs to a header.
func (c *conn) count(p []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.head.ended {
		return nil
	}
	if err := c.head.add(p); err != nil {
		return err
	}
	c.http2 = c.listener.limits.HTTP2 && c.head.ended && c.head.isHTTP2()
	if !c.hold(max(0, c.head.cost()-FreeCost)) {
		return errFull
	}
	return nil
}

// hold changes the connection's share, and reports whether there is room for it.
func (c *conn) hold(share int64) bool {
	more := share - c.held
	c.held = share
	return more == 0 || c.listener.add(c.RemoteAddr(), more)
}

// add counts more of the unfinished headers of an address, and reports whether there is room for it.
func (l *Listener) add(from net.Addr, more int64) bool {
	if l.limits.Shared {
		return l.shares.Add(AddressOf(from), more)
	}
	return l.unfinished.Add(more) <= l.limits.Unfinished
}

const (
	// lingerTime is how long the client's answer waits while what it sends is discarded: a client that is still sending
	// would not find it, and one that sends such headers over and over must not get on with it. It varies by as much,
	// so that many clients do not come back together.
	lingerTime = time.Second
	// lingerBytes bounds what is discarded.
	lingerBytes = 128 << 10
)

// refuse answers in place of the server, which is reading a header into scratch and therefore writes nothing.
func (c *conn) refuse(answer string, why error, scratch []byte) error {
	_ = c.SetReadDeadline(time.Now().Add(lingerTime + rand.N(lingerTime)))
	for read := 0; read < lingerBytes; {
		n, err := c.Conn.Read(scratch)
		if read += n; err != nil {
			break
		}
	}
	_ = c.SetWriteDeadline(time.Now().Add(lingerTime))
	_, _ = c.Write([]byte(answer))
	_ = c.CloseWrite()
	// net/http answers no error of this type.
	return &net.OpError{Op: "read", Net: "tcp", Err: why}
}

// NetConn returns the connection that the listener accepted.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *conn) Close() error {
	c.end()
	defer c.closed()
	return c.Conn.Close()
}

// CloseWrite passes on that the other side sends no more, for WebSockets.
func (c *conn) CloseWrite() error { return CloseWrite(c.Conn) }

// CloseWrite ends what a connection sends, if it can be ended without the other direction.
func CloseWrite(connection any) error {
	if half, ok := connection.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
