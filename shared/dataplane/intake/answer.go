package intake

import (
	"context"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
)

// answers is the side of a client: a connection whose other side must not send larger headers than clients may.
type answers struct {
	net.Conn

	mu   sync.Mutex
	head head
}

// Dial bounds the headers of answers on the connections of a client, whose requests Expecting prepares.
func Dial(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &answers{Conn: c}, nil
	}
}

// Expecting returns a request whose connection learns that the next header is that of its answer.
func Expecting(req *http.Request) *http.Request {
	// httputil.ReverseProxy gives each request a trace. To join it with another one would cost 2 microseconds.
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn == nil {
		trace.GotConn = expect
		return req
	}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: expect}))
}

func expect(info httptrace.GotConnInfo) {
	if c, ok := info.Conn.(*answers); ok {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.head = head{}
	}
}

// Read implements net.Conn.
func (c *answers) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p[:n]; !c.head.ended && len(rest) > 0; {
		before := c.head.bytes
		if err := c.head.add(rest); err != nil {
			return 0, err
		}
		rest = rest[c.head.bytes-before:]
		c.head.skipInterim()
	}
	return n, err
}

// CloseWrite passes on that the client sends no more, for WebSockets.
func (c *answers) CloseWrite() error { return CloseWrite(c.Conn) }
