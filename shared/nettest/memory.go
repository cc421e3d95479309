package nettest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
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
	listener := pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: handler} //nolint:gosec // a test needs no time limit for headers
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	m := Memory{opened: new(atomic.Int32)}
	m.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		m.opened.Add(1)
		return listener.dial(ctx)
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

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, errors.New("the server is closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }
