package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"agents.example/controlplane/shared/client"
)

// serve returns a client of a real HTTP server whose connections are in memory, so that a test in a synctest bubble
// waits in virtual time.
func serve(t *testing.T, handler http.Handler, options ...client.Option) *client.Client {
	t.Helper()
	c, _ := serveAs(t, handler, client.StaticToken("token"), options...)
	return c
}

// serveAs also returns the number of connections so far.
func serveAs(
	t *testing.T, handler http.Handler, tokens client.TokenSource, options ...client.Option,
) (*client.Client, *atomic.Int32) {
	t.Helper()
	listener := pipes{conns: make(chan net.Conn), closed: make(chan struct{}), opened: new(atomic.Int32)}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener)
	}()
	transport := &http.Transport{DialContext: listener.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = server.Close()
		<-done
	})
	options = append([]client.Option{client.WithHTTPClient(&http.Client{Transport: transport})}, options...)
	c, err := client.New("http://localhost", tokens, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c, listener.opened
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	opened *atomic.Int32
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		p.opened.Add(1)
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
