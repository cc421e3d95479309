package nettest

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
)

// Memory is an HTTP server whose connections are in memory. In a synctest bubble, waiting for it takes virtual time,
// unlike waiting for a socket.
type Memory struct {
	*http.Transport
	opened *atomic.Int32
}

// Serve starts a server that ends with the test. Every address leads to it.
func Serve(t *testing.T, handler http.Handler) Memory {
	t.Helper()
	listener := Listen()
	server := &http.Server{Handler: handler} //nolint:gosec // a test needs no time limit for headers
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	m := Memory{opened: new(atomic.Int32)}
	m.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		m.opened.Add(1)
		return listener.Dial(ctx)
	}}
	t.Cleanup(func() {
		m.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	return m
}

// Connections returns how many connections clients have opened.
func (m Memory) Connections() int { return int(m.opened.Load()) }

// Listener is a listener of connections in memory. They have no buffer: a write waits until it is read.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
}

// Listen returns a new Listener.
func Listen() Listener { return Listener{conns: make(chan net.Conn), closed: make(chan struct{})} }

// Dial opens a connection. It waits until the connection is accepted.
func (l Listener) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Net: "pipe", Err: syscall.ECONNREFUSED}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (l Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l Listener) Close() error {
	close(l.closed)
	return nil
}

// Addr implements net.Listener.
func (Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
