// Package gateway knows the way into a running agent: how its hostname is reached over HTTP, and what its answer says.
// It does not know what the route there is made of (package gke), nor what follows from an agent that doesn't answer.
//
// A probe goes to the agent's own hostname and nowhere else: one address, no redirect, no proxy, little time, and
// nothing of the body.
package agentprobe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// probeTimeout bounds one probe, names and handshakes included.
	probeTimeout = 3 * time.Second
	// maxHeaderBytes bounds what is read of an answer. The body isn't read at all.
	maxHeaderBytes = 4 << 10
	// readyPath answers 200 when the agent serves, to anybody (the runtime contract).
	readyPath = "/health/ready"
)

// Options say how agents are reached.
type Options struct {
	// Addresses make agents' hostnames.
	Addresses agent.Addresses
	// DialAddress is dialled for every hostname, as host or host:port, instead of what DNS says. It is needed where the
	// hostnames are in no DNS, or stand for addresses that are not public, which are refused otherwise.
	DialAddress string
	// TLS is the configuration of TLS; nil is Go's own.
	TLS *tls.Config
}

// Prober probes agents. It implements provisioning.Gateway and may be used from many goroutines at once.
type Prober struct {
	addresses agent.Addresses
	client    *http.Client
}

var _ provisioning.AgentProber = (*Prober)(nil)

// New makes a Gateway.
func New(o Options) *Prober { return newGateway(o, net.DefaultResolver.LookupNetIP) }

// lookup finds the addresses of a name, as net.Resolver does.
type lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)

func newGateway(o Options, find lookup) *Prober {
	d := dialer{override: o.DialAddress, find: find}
	transport := &http.Transport{
		DialContext: d.dial, TLSClientConfig: o.TLS.Clone(), MaxResponseHeaderBytes: maxHeaderBytes,
		// the next probe is of another agent, and is to find out whether a connection can be made
		DisableKeepAlives: true,
	}
	return &Prober{addresses: o.Addresses, client: &http.Client{
		// Every probe is a span, of which the agent learns nothing.
		Transport: otelhttp.NewTransport(transport,
			otelhttp.WithPropagators(propagation.NewCompositeTextMapPropagator()),
			otelhttp.WithSpanNameFormatter(func(string, *http.Request) string { return "probe an agent" })),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Probe implements provisioning.Gateway. Meta of the error has "reason", one of dns, tls, connect, timeout and
// bad_status, and "http_status" with the last.
func (g *Prober) Probe(ctx context.Context, a agent.Agent) error {
	status, err := g.ask(ctx, a, readyPath, func(http.Header) {})
	if err == nil && status != http.StatusOK {
		err = badStatus(status)
	}
	return err
}

// ask makes one request to the agent's own hostname and answers the status. Errors: Unavailable, as Probe's.
func (g *Prober) ask(ctx context.Context, a agent.Agent, path string, prepare func(http.Header)) (status int,
	err error) {
	if a.Hostname(g.addresses) == "" {
		return 0, unhealthy("dns", "the agent has no hostname")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL(g.addresses, path), nil)
	if err != nil {
		return 0, unhealthy("connect", "its address is not valid").WithCause(err)
	}
	prepare(request.Header)
	response, err := g.client.Do(request)
	if err != nil {
		return 0, explain(err)
	}
	_ = response.Body.Close() // unread
	return response.StatusCode, nil
}

func badStatus(status int) error {
	e := unhealthy("bad_status", fmt.Sprintf("it answered with status %d", status))
	e.Meta["http_status"] = status
	return e
}

func unhealthy(reason, why string) *fault.Error {
	return fault.New(fault.Unavailable, "gateway_unhealthy", "The agent does not answer on its hostname yet: %s.", why).
		WithMeta(map[string]any{"reason": reason})
}

// explain finds out how far a request came.
func explain(err error) error {
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	var alert tls.AlertError
	var timeout net.Error
	switch {
	case errors.As(err, &name) && !name.IsTimeout:
		return unhealthy("dns", "its hostname is not known").WithCause(err)
	case errors.Is(err, errNotPublic):
		return unhealthy("dns", "its hostname stands for an address that is not public").WithCause(err)
	case errors.As(err, &certificate), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return unhealthy("tls", "no trusted connection can be made").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return unhealthy("timeout", "it took too long").WithCause(err)
	default:
		return unhealthy("connect", "no connection can be made").WithCause(err)
	}
}
