package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// API is the API server of one cell, for plain requests. It connects when it is first needed, and again when that
// failed. It may be used from any goroutine.
type API struct {
	Cell
	base context.Context //nolint:containedctx // for the tokens of all requests
	tune func(*rest.Config)

	mu     sync.Mutex
	client *http.Client
	server *url.URL
}

// NewAPI returns the API server of a cell. base has no deadline, only what token sources take from a context. tune
// changes the configuration of the connection; it may be nil.
func NewAPI(base context.Context, c Cell, tune func(*rest.Config)) *API {
	return &API{Cell: c, base: context.WithoutCancel(base), tune: tune}
}

// Client returns a client with the identity of this process, and the address of the API server.
func (a *API) Client() (*http.Client, *url.URL, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		return a.client, a.server, nil
	}
	config, err := Config(a.base, a.Cell)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to cell %q: %w", a.Name, err)
	}
	if a.tune != nil {
		a.tune(config)
	}
	config.Wrap(Traced(a.Name))
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to cell %q: %w", a.Name, err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, nil, fmt.Errorf("connect to cell %q: %w", a.Name, err)
	}
	a.client, a.server = client, server
	return client, server, nil
}

// Close closes connections that are idle.
func (a *API) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil {
		utilnet.CloseIdleConnectionsFor(a.client.Transport)
	}
}

// The pod of an agent's StatefulSet, and its container with the agent's image. The pod's other containers are the
// platform's: their logs are not the tenant's, and the admission policy of cells (terraform/cell/guard.yaml) refuses
// commands in them.
const (
	AgentPod       = "agent-0"
	AgentContainer = "agent"
)

// ReaderPod is the pod that has a copy of a snapshot of the agent. Its only container has the name AgentContainer.
const ReaderPod = "reader-0"

// PodPath is the path of an agent's pod in the namespace of the agent.
func PodPath(namespace string) string { return podPath(namespace, AgentPod) }

// ReaderPath is the path of the pod that has a copy of a snapshot.
func ReaderPath(namespace string) string { return podPath(namespace, ReaderPod) }

func podPath(namespace, pod string) string {
	return "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + pod
}
