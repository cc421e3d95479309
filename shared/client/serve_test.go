package client_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/shared/client"
	"agents.example/controlplane/shared/nettest"
)

// serve returns a client of a real HTTP server whose connections are in memory, so that a test in a synctest bubble
// waits in virtual time.
func serve(t *testing.T, handler http.Handler, options ...client.Option) *client.Client {
	t.Helper()
	c, _ := serveAs(t, handler, client.StaticToken("token"), options...)
	return c
}

// serveAs also returns the server.
func serveAs(
	t *testing.T, handler http.Handler, tokens client.TokenSource, options ...client.Option,
) (*client.Client, nettest.Memory) {
	t.Helper()
	server := nettest.Serve(t, handler)
	options = append([]client.Option{client.WithHTTPClient(&http.Client{Transport: server})}, options...)
	c, err := client.New("http://localhost", tokens, options...)
	if err != nil {
		t.Fatal(err)
	}
	return c, server
}
