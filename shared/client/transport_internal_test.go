package client

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/nettest"
)

// cutConn is a connection that loses what is written to it once it is cut. Nothing else happens, as when a router has
// forgotten the connection.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

// Write implements net.Conn.
func (c cutConn) Write(b []byte) (int, error) {
	if c.cut.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// TestNew_LeavesADeadConnectionOfHTTP2 cuts the connection, as the sleep of a laptop does. The next call needs another
// one, and the patience of one request is 2 minutes.
func TestNew_LeavesADeadConnectionOfHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		protocols := &http.Protocols{}
		protocols.SetUnencryptedHTTP2(true)
		listener := nettest.Listen()
		server := &http.Server{ //nolint:gosec // a test needs no time limit for headers
			Protocols: protocols,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"id": "u"}`))
			}),
		}
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(func() { _ = server.Close() })
		var conns []*atomic.Bool
		transport := withPings(&http.Transport{
			Protocols: protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, err := listener.Dial(ctx)
				conns = append(conns, &atomic.Bool{})
				return cutConn{conn, conns[len(conns)-1]}, err
			},
		}).(*http.Transport)
		t.Cleanup(transport.CloseIdleConnections)
		c, err := New("http://localhost", StaticToken("token"), WithHTTPClient(&http.Client{Transport: transport}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetMe(t.Context()); err != nil {
			t.Fatal(err)
		}
		conns[0].Store(true)
		began := time.Now()
		_, err = c.GetMe(t.Context())
		if took := time.Since(began); err != nil || took > time.Minute || len(conns) != 2 {
			t.Errorf("answered after %s over %d connections, %v; want a second connection within a minute", took,
				len(conns), err)
		}
	})
}

// TestNew_SendsPingsByDefault: the transport of a client that got none is the one that notices dead connections.
func TestNew_SendsPingsByDefault(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]Option{
		"no HTTP client": nil, "one without a transport": {WithHTTPClient(&http.Client{Timeout: time.Minute})},
	} {
		c, err := New("https://api.example.com", StaticToken("token"), options...)
		if err != nil {
			t.Fatal(err)
		}
		transport, ok := c.http.Transport.(*http.Transport)
		if !ok || transport.HTTP2 == nil || transport.HTTP2.SendPingTimeout != pingAfter {
			t.Errorf("%s: the transport is %+v, want one that sends pings", name, c.http.Transport)
		}
	}
}
