package kubeletserver

import (
	"context"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lingerTime bounds how long a closed connection takes what its client still sends.
const lingerTime = 10 * time.Second

// lingering closes connections in two steps, until ctx ends. A command may end before its input does. If its connection
// were closed with input that was not read, TCP would reset it, and an API server that cannot pass on the rest of the
// input gives up the connection with the output that it has not passed on yet.
type lingering struct {
	net.Listener
	ctx context.Context
}

func (l lingering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lingeringConn{Conn: c, ctx: l.ctx}, nil
}

type lingeringConn struct {
	net.Conn
	ctx     context.Context //nolint:containedctx // of the server
	closed  atomic.Bool
	reading sync.Mutex
}

func (c *lingeringConn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	if c.closed.Load() {
		return 0, net.ErrClosed
	}
	n, err := c.Conn.Read(b)
	if err != nil && c.closed.Load() {
		err = net.ErrClosed
	}
	return n, err
}

// Close ends the output, and leaves the input to be read and dropped until the client has read the output and left.
func (c *lingeringConn) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || c.ctx.Err() != nil || half.CloseWrite() != nil {
		return c.Conn.Close()
	}
	stop := context.AfterFunc(c.ctx, func() { _ = c.Conn.Close() })
	_ = c.SetReadDeadline(time.Now()) // ends a call of Read
	go func() {
		defer stop()
		c.reading.Lock()   // once it has ended; later ones read nothing
		c.reading.Unlock() //nolint:staticcheck // empty
		if c.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.Copy(io.Discard, c.Conn)
		}
		_ = c.Conn.Close()
	}()
	return nil
}
