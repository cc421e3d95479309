package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/egress"
)

// exchange is a request by HTTP that the gate forwards, and its answer.
type exchange struct {
	*intake.Writer
	gate   *Gate
	link   *link
	agent  Agent
	tenant *tenant
	// scheme and host are where the request goes.
	scheme, host string
	// secrets has the headers that the gate sets.
	secrets http.Header
	// used counts the host, perhaps more than once called.
	used func()
	// memory is what the exchange takes.
	memory int64
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange) // always there
	return x
}

const (
	// requestMemory is for a request in flight with its two connections.
	requestMemory = 60 << 10
	// maxAnswerHeader bounds the bytes of an answer's header.
	maxAnswerHeader = 64 << 10
)

// errMemory means that the memory of the agent's requests is used up.
var errMemory = errors.New("the agent's requests take too much memory")

// charge counts memory until the end of the exchange. As with connections, an agent gets more only while it has less
// than is free.
func (x *exchange) charge(bytes int64) error {
	x.memory += bytes
	limits := x.gate.o.Limits
	agent, all := x.tenant.memory.Add(bytes), x.gate.memory.Add(bytes)
	if agent > min(limits.AgentMemory, limits.Memory-all+bytes) {
		return errMemory
	}
	return nil
}

// forward forwards a request, if the limits leave room for it. It panics with http.ErrAbortHandler if the answer breaks
// off, as httputil.ReverseProxy does.
func (x *exchange) forward(req *http.Request) {
	g, t := x.gate, x.tenant
	defer func() {
		t.requests.Add(-1)
		g.requests.Add(-1)
		t.memory.Add(-x.memory)
		g.memory.Add(-x.memory)
	}()
	ofAgent, ofAll := t.requests.Add(1), g.requests.Add(1)
	if x.charge(requestMemory+2*intake.Cost(req.Header)) != nil || //nolint:mnd // the header and its copy
		ofAgent > min(g.o.Limits.AgentRequests, g.o.Limits.Requests-ofAll+1) {
		g.refuse(x, x.agent, x.host, egress.TooMany)
		return
	}
	if x.used == nil {
		x.used = sync.OnceFunc(func() { g.counts.used(x.agent.ID, x.host) })
	}
	g.proxy.ServeHTTP(x, req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x)))
}

// rewrite completes the request that the host gets. It is the agent's, apart from the secrets and from what belongs to
// the connection.
func rewrite(p *httputil.ProxyRequest) {
	x := exchangeOf(p.In.Context())
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = x.scheme, x.host, x.host
	p.Out.URL.RawQuery = p.In.URL.RawQuery // the proxy would drop what Go cannot parse
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if sent := p.In.Header[name]; len(sent) > 0 { // the proxy removes them: to the host they are the agent's
			p.Out.Header[name] = sent
		}
	}
	intake.OnlyWebSocket(p.Out)
	for name, values := range x.secrets {
		p.Out.Header[name] = values
	}
}

// transport sends requests on the connections of their agents.
type transport struct{}

// RoundTrip implements http.RoundTripper.
func (transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x := exchangeOf(req.Context())
	// httputil.ReverseProxy gives each request a trace.
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.GotConn == nil {
		trace.GotConn = func(httptrace.GotConnInfo) { x.used() }
	}
	res, err := x.tenant.transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if err := x.charge(2 * intake.Cost(res.Header)); err != nil { //nolint:mnd // the header and its copy
		return nil, errors.Join(err, res.Body.Close())
	}
	return res, nil
}

// newTransport returns the connections of an agent to hosts. Answers pass unchanged. Requests that are not idempotent
// are repeated only if no byte of them was sent.
func (g *Gate) newTransport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	const (
		farIdle  = 90 * time.Second
		farConns = 16
	)
	return &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, g.o.Timeouts.Dial)
			defer cancel()
			return g.o.Dial(ctx, network, address)
		},
		TLSClientConfig:     &tls.Config{RootCAs: g.o.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: g.o.Timeouts.Dial, Protocols: protocols, DisableCompression: true,
		// A host and a reader that is slow must not fill the memory.
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: 512 << 10, MaxReceiveBufferPerConnection: 4 << 20,
			SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
		},
		MaxIdleConns: 4 * farConns, MaxIdleConnsPerHost: farConns, IdleConnTimeout: farIdle,
		ResponseHeaderTimeout: g.o.Timeouts.Answer, MaxResponseHeaderBytes: maxAnswerHeader,
		ExpectContinueTimeout: time.Second,
	}
}

// handleError answers a request that got no answer from the host.
func (g *Gate) handleError(w http.ResponseWriter, req *http.Request, err error) {
	x := exchangeOf(req.Context())
	switch {
	case g.o.IsNotPublic(err):
		g.refuse(w, x.agent, x.host, egress.NotPublic)
	case errors.Is(err, errMemory):
		g.refuse(w, x.agent, x.host, egress.TooMany)
	case req.Context().Err() != nil: // the agent is gone, or its connection was closed
	case x.BodyFailed():
		answer(w, http.StatusBadRequest, "", "The body of the request could not be read.")
	default:
		x.used()
		g.metrics.refused[egress.Unreachable].Inc()
		slog.DebugContext(req.Context(), "host did not answer", "agent_id", x.agent.ID, "error", err.Error())
		answer(w, http.StatusBadGateway, egress.Unreachable,
			fmt.Sprintf("%s could not be reached, or closed the connection before it answered.", x.host))
	}
}
