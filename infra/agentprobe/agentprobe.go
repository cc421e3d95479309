// Package agentprobe checks over HTTP whether an agent serves on its hostname and accepts its credentials, and tells
// its front to make the calls of its schedules. It does not create the route to the agent (package gke) and does not
// decide what follows from a failed probe.
//
// It requests only the agent's hostname: one address, no redirect, no proxy, a short timeout. It reads no body but the
// front's report on calls.
package agentprobe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"

	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

const (
	// probeTimeout bounds one probe, names and handshakes included, and dashboardTimeout one that waits for the agent's
	// own program.
	probeTimeout     = 3 * time.Second
	dashboardTimeout = 8 * time.Second
	// maxHeaderBytes bounds what is read of an answer. The body isn't read at all.
	maxHeaderBytes = 4 << 10
	// readyPath answers 200 when the agent serves, to anybody (the runtime contract).
	readyPath = "/health/ready"
	// dashboardPath answers 204 when the agent serves, with the status of its dashboard in a header, to anybody.
	dashboardPath   = "/health/dashboard"
	dashboardHeader = "X-Agent-Dashboard-Status"
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

// Prober probes agents. It implements provisioning.AgentProber and is safe for concurrent use.
type Prober struct {
	addresses agent.Addresses
	client    *http.Client
}

var _ provisioning.AgentProber = (*Prober)(nil)

// New creates a Prober.
func New(o Options) *Prober { return newProber(o, net.DefaultResolver.LookupNetIP) }

func newProber(o Options, find publicnet.Lookup) *Prober {
	d := dialer{override: o.DialAddress, Dialer: publicnet.Dialer{Find: find}}
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

// Probe implements provisioning.AgentProber. Meta of the error has "reason", one of dns, tls, connect, timeout and
// bad_status. With bad_status it also has "http_status".
func (p *Prober) Probe(ctx context.Context, a agent.Agent) error {
	status, err := p.requestStatus(ctx, a, readyPath, func(http.Header) {})
	if err == nil && status != http.StatusOK {
		err = badStatus(status)
	}
	return err
}

// Dashboard returns the status with which the agent's dashboard answers its user. Errors: those of Probe. It needs no
// credential of the agent: the agent's front asks its container. A front of a former release cannot; then the status is
// that of Probe.
func (p *Prober) Dashboard(ctx context.Context, a agent.Agent) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, dashboardTimeout)
	defer cancel()
	got, err := p.request(ctx, a, dashboardPath, func(http.Header) {})
	switch {
	case err != nil:
		return 0, err
	case got.status == http.StatusUnauthorized:
		return http.StatusOK, p.Probe(ctx, a)
	case got.status != http.StatusNoContent:
		return 0, badStatus(got.status)
	}
	status, err = strconv.Atoi(got.header.Get(dashboardHeader))
	if err != nil || status < 100 || status > 999 {
		return 0, badStatus(got.status)
	}
	return status, nil
}

// requestStatus makes one request to the agent's hostname and returns the status. Errors: those of Probe.
func (p *Prober) requestStatus(ctx context.Context, a agent.Agent, path string, prepare func(http.Header)) (status int,
	err error,
) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	got, err := p.request(ctx, a, path, prepare)
	return got.status, err
}

// answer is what a hostname answers.
type answer struct {
	status int
	header http.Header
	// body is the beginning of that of an error.
	body []byte
}

// maxBody bounds what is read of an answer's body. The router's errors are shorter.
const maxBody = 1 << 10

// request is requestStatus with all of the answer, and without a timeout.
func (p *Prober) request(ctx context.Context, a agent.Agent, path string, prepare func(http.Header)) (answer, error) {
	if a.Hostname(p.addresses) == "" {
		return answer{}, unhealthy("dns", "the agent has no hostname")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL(p.addresses, path), nil)
	if err != nil {
		return answer{}, unhealthy("connect", "its URL is not valid").WithCause(err)
	}
	prepare(request.Header)
	response, err := p.client.Do(request)
	if err != nil {
		return answer{}, explain(err)
	}
	got := answer{status: response.StatusCode, header: response.Header}
	if got.status >= http.StatusBadRequest {
		got.body, _ = io.ReadAll(io.LimitReader(response.Body, maxBody)) // without it, the status says enough
	}
	_ = response.Body.Close()
	return got, nil
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
		return unhealthy("dns", "its hostname does not resolve").WithCause(err)
	case errors.Is(err, publicnet.ErrNotPublic):
		return unhealthy("dns", "its hostname resolves to an address that is not public").WithCause(err)
	case errors.As(err, &certificate), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return unhealthy("tls", "the TLS connection cannot be established").WithCause(err)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return unhealthy("timeout", "the request timed out").WithCause(err)
	default:
		return unhealthy("connect", "the connection cannot be established").WithCause(err)
	}
}
