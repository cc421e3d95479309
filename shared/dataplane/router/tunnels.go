package router

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// tunnels holds the open WebSockets, which http.Server does not know any more.
type tunnels struct {
	mu   sync.Mutex
	open map[*tunnel]struct{}
}

// tunnel is a client's connection that has become a WebSocket.
type tunnel struct {
	net.Conn
	owner *tunnels
	// early holds what the client sent before the WebSocket was open; nil once it was read.
	early *bufio.Reader
	// usedAt is the time of the last read or write that moved data, in nanoseconds.
	usedAt atomic.Int64
}

func (t *tunnels) add(conn net.Conn, early *bufio.Reader) *tunnel {
	c := &tunnel{Conn: conn, owner: t}
	if early.Buffered() > 0 {
		c.early = early
	}
	c.usedAt.Store(time.Now().UnixNano())
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*tunnel]struct{}{}
	}
	t.open[c] = struct{}{}
	return c
}

func (t *tunnels) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.open)
}

// closeIdle closes the tunnels that were silent for a time, and returns how many remain.
func (t *tunnels) closeIdle(silent time.Duration) int {
	limit := time.Now().Add(-silent).UnixNano()
	t.mu.Lock()
	var idle []*tunnel
	for c := range t.open {
		if c.usedAt.Load() <= limit {
			idle = append(idle, c)
		}
	}
	remain := len(t.open) - len(idle)
	t.mu.Unlock()
	for _, c := range idle {
		_ = c.Close() // its client connects again
	}
	return remain
}

// Read implements net.Conn.
func (c *tunnel) Read(b []byte) (n int, err error) {
	if c.early != nil {
		n, err = c.early.Read(b)
		if c.early.Buffered() == 0 {
			c.early = nil
		}
	} else {
		n, err = c.Conn.Read(b)
	}
	c.used(n)
	return n, err
}

// Write implements net.Conn.
func (c *tunnel) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.used(n)
	return n, err
}

func (c *tunnel) used(n int) {
	if n > 0 {
		c.usedAt.Store(time.Now().UnixNano())
	}
}

// CloseWrite lets the proxy pass on that the agent sends no more.
func (c *tunnel) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// Close implements net.Conn.
func (c *tunnel) Close() error {
	c.owner.mu.Lock()
	delete(c.owner.open, c)
	c.owner.mu.Unlock()
	return c.Conn.Close()
}
