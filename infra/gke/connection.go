package gke

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"agents.example/controlplane/infra/gke/connect"
)

// connection connects to a cell when it is first needed, and again when that failed.
type connection struct {
	Cell
	// base is no call's context: it has no deadline, only what token sources take from a context.
	base context.Context
	// wrap sees every request, when it is set.
	wrap func(http.RoundTripper) http.RoundTripper

	mu     sync.Mutex
	client *client
	idle   func()
}

// open returns the cell's one client. Errors: Unavailable.
func (c *connection) open() (*client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config, err := connect.Config(c.base, connect.Cell{Name: c.Name, Endpoint: c.Endpoint, Kubeconfig: c.Kubeconfig})
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	if c.wrap != nil {
		config.Wrap(c.wrap)
	}
	config.Wrap(connect.Traced(c.Name))
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	objects, err := newObjectClient(config, httpClient)
	if err != nil {
		return nil, unavailable(fmt.Errorf("connect to cell %q: %w", c.Name, err))
	}
	c.client = &client{cell: c.Name, objects: objects}
	c.idle = func() { utilnet.CloseIdleConnectionsFor(httpClient.Transport) }
	return c.client, nil
}

func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle != nil {
		c.idle()
	}
}
