// Package podlogs reads the logs of agents' containers from the API servers of cells. It uses plain requests instead of
// a typed client: the binary that serves logs then links none of the Kubernetes types, which would slow its cold start.
package podlogs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/fault"
)

// Logs reads the logs of agents in all cells. It implements agentlog.Source and agentlog.Pods.
type Logs struct{ cells map[string]*connect.API }

var (
	_ agentlog.Source = (*Logs)(nil)
	_ agentlog.Pods   = (*Logs)(nil)
)

// New returns the logs of agents in some cells. It connects to a cell when its first log is read. base has no deadline,
// only what token sources take from a context.
func New(base context.Context, cells []connect.Cell) *Logs {
	l := &Logs{cells: map[string]*connect.API{}}
	for _, c := range cells {
		l.cells[c.Name] = connect.NewAPI(base, c, nil)
	}
	return l
}

// Open implements agentlog.Source.
func (l *Logs) Open(ctx context.Context, a agent.Agent, o agentlog.Options) (agentlog.Stream, error) {
	return agentlog.Open(ctx, l, a, o)
}

// Close closes connections that are idle.
func (l *Logs) Close() error {
	for _, c := range l.cells {
		c.Close()
	}
	return nil
}

// request is what a cell's API server is asked for.
type request struct {
	path  string
	query url.Values
	// accept is the form of the answer; empty for the usual one.
	accept string
}

// get requests a path of the cell's API server. The body of a success ends with ctx, or when the server is silent for
// longer than a reader may wait. Errors: as explain returns them.
func (l *Logs) get(
	ctx context.Context, a agent.Agent, r request, wait waits,
) (io.ReadCloser, error) {
	c, ok := l.cells[a.Cell]
	if !ok {
		return nil, fault.New(fault.Unavailable, "cell_unknown",
			"The agent's cluster %q is not configured. Contact support.", a.Cell)
	}
	client, server, err := c.Client()
	if err != nil {
		return nil, unavailable(err)
	}
	address := server.JoinPath(r.path)
	address.RawQuery = r.query.Encode()
	ctx, cancel := context.WithCancelCause(ctx)
	limit := startLimit(cancel, wait.answer)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("make a request to cell %q: %w", c.Name, err)
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	res, err := client.Do(req) //nolint:bodyclose // the returned body closes it
	limit.stop()
	if err != nil {
		cause := errors.Join(err, context.Cause(ctx))
		cancel(nil)
		return nil, unavailable(fmt.Errorf("call cell %q: %w", c.Name, cause))
	}
	b := &body{ReadCloser: res.Body, cancel: cancel, limit: startLimit(cancel, wait.silence)}
	b.limit.stop()
	if res.StatusCode != http.StatusOK {
		defer func() { _ = b.Close() }()
		return nil, explain(res, b)
	}
	return b, nil
}
