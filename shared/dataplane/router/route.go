package router

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

// route leads to one agent. It is an http.RoundTripper, too, so that the proxy can look up the agent's address again.
type route struct {
	router    *Router
	host      string
	namespace string
	proxy     *httputil.ReverseProxy
	inFlight  atomic.Int64
	memory    atomic.Int64 // of the requests in flight
	clients   clients
	wakeLimit wakeLimit
	// held is the number of requests that are held. heldRequests guards it.
	held int
	// wakeDue is the time, in nanoseconds, from which the agent's wake may be asked for again, and wakeAsked is true
	// while a call is under way.
	wakeDue   atomic.Int64
	wakeAsked atomic.Bool
	target    atomic.Pointer[target]

	duration atomic.Pointer[prometheus.Observer]
	counter  atomic.Pointer[codeCounter]
	// series guards the time series: after gone is set, no request may create one.
	series sync.RWMutex
	gone   bool
	// samples counts the requests that were counted, scraped is what it was at the last scrape, and quiet is the
	// number of scrapes since it changed.
	samples atomic.Int64
	scraped int64
	quiet   int
}

// target is an address with its text.
type target struct {
	addr netip.AddrPort
	text string
}

func newRoute(r *Router, host, namespace string) *route {
	a := &route{router: r, host: host, namespace: namespace}
	a.proxy = &httputil.ReverseProxy{
		Rewrite: a.rewrite, Transport: a, ErrorHandler: a.handleError, ModifyResponse: a.note,
		BufferPool: &r.buffers, FlushInterval: dataplane.FlushInterval,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	return a
}

// address returns the agent's address. It returns "" if the agent is not ready.
func (a *route) address() string {
	endpoint := a.router.endpoints.Lookup(a.namespace)
	if endpoint.State != Ready {
		return ""
	}
	return a.textOf(endpoint.Addr)
}

// textOf returns the text of the agent's address.
func (a *route) textOf(addr netip.AddrPort) string {
	if t := a.target.Load(); t != nil && t.addr == addr {
		return t.text
	}
	t := &target{addr: addr, text: addr.String()}
	a.target.Store(t)
	return t.text
}

// rewrite completes the request that the agent gets.
func (a *route) rewrite(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme = "http"
	p.Out.URL.Host = a.address()
	p.Out.URL.RawQuery = p.In.URL.RawQuery // the proxy would drop what Go cannot parse
	host, port := splitHost(p.In.Host)
	p.Out.Host = host
	if port != "" {
		p.Out.Host = host + port
	}
	removeIdentity(p.Out.Header)
	intake.OnlyWebSocket(p.Out)
	setForwarded(p)
	// A front whose door is closed refuses requests unread. Without this header, the body would be on its way.
	if x := exchangeOf(p.In.Context()); x.wakes && p.Out.Body != nil {
		p.Out.Header["Expect"] = []string{"100-continue"}
	}
}

// errNotReady means that the agent stopped being ready while its request was on the way.
var errNotReady = errors.New("the agent is not ready")

// RoundTrip implements http.RoundTripper.
func (a *route) RoundTrip(req *http.Request) (*http.Response, error) {
	if x := exchangeOf(req.Context()); x.wakes {
		return a.sendPatiently(x, req)
	}
	res, err := a.send(req)
	if err == nil && isDoor(res) { // of an agent that a request does not wake
		return nil, errors.Join(errNotReady, res.Body.Close())
	}
	return res, err
}

// send sends a request to the agent. If it could not connect, it looks up the address again, and repeats the request
// once if the address is another one. It never repeats a request that has a body or is not idempotent.
func (a *route) send(req *http.Request) (*http.Response, error) {
	if req.URL.Host == "" {
		return nil, errNotReady
	}
	req = intake.Expecting(req)
	res, err := a.router.transport.RoundTrip(req)
	switch {
	case err == nil:
		return a.chargeAnswer(res)
	case !neverConnected(err) || req.Context().Err() != nil:
		return nil, err
	}
	address := a.address()
	switch {
	case address == "":
		return nil, errNotReady
	case address == req.URL.Host || req.Body != nil || !isIdempotent(req.Method):
		return nil, err
	}
	again := req.WithContext(req.Context())
	moved := *req.URL
	moved.Host = address
	again.URL = &moved
	if res, err = a.router.transport.RoundTrip(again); err != nil {
		return nil, err
	}
	return a.chargeAnswer(res)
}

// neverConnected reports whether an error means that no connection was made.
func neverConnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func isIdempotent(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// clientClosed is the status of a request whose client went away before the answer. No client sees it.
const clientClosed = 499

// handleError answers a request that got no answer from the agent.
func (a *route) handleError(w http.ResponseWriter, req *http.Request, err error) {
	x, ok := w.(*exchange)
	var limited wakeLimitedError
	switch {
	case ok && x.hijacked:
	case req.Context().Err() != nil || errors.Is(err, context.Canceled):
		w.WriteHeader(clientClosed)
	case errors.Is(err, errNotReady):
		refuse(w, req, a.router.endpoints.Lookup(a.namespace).State.refusal())
	case errors.Is(err, errNoCredential):
		challenge(w, req)
	case errors.Is(err, errWaking):
		x.asleep = acceptsPage(req)
		refuse(w, req, agentWaking)
	case errors.As(err, &limited):
		x.asleep = true
		why := wakesLimited.refusal()
		why.retryAfter = int((limited.wait + time.Second - 1) / time.Second)
		why.write(w, req)
	case ok && x.BodyFailed():
		refuse(w, req, brokenBody)
	case errors.Is(err, errBodyRead):
		refuse(w, req, agentMoved)
	case errors.Is(err, intake.ErrHeader), errors.Is(err, errAnswerMemory):
		refuse(w, req, answerRefused)
	default:
		if id := refuse(w, req, agentUnreachable); a.router.failures.Allow() {
			slog.WarnContext(req.Context(), "agent could not be reached", "namespace", a.namespace, "request_id", id,
				"error", err.Error())
		}
	}
}

// refuse answers a request that a limit leaves no room for.
func (a *route) refuse(w *intake.Writer, req *http.Request, why answer, limit prometheus.Counter) {
	limit.Inc()
	a.count(req, http.StatusServiceUnavailable)
	refuse(w, req, why)
}

// removeIdentity removes the headers that only the platform may set.
func removeIdentity(h http.Header) {
	for name := range h {
		if dataplane.IsIdentityHeader(name) {
			delete(h, name)
		}
	}
}

// localClient is the address of clients on the router's own machine. It is reserved for documentation (RFC 5737).
const localClient = "203.0.113.1"

// setForwarded tells the agent where a request came from.
//
// X-Forwarded-For is what the load balancer sent, with the load balancer's own address appended. Google's load balancer
// appends the client's address and its own to what the client sent, so the client's address is the third from the
// right. All further to the left is the client's claim. X-Forwarded-Proto is the load balancer's, which overwrites what
// the client sent.
//
// A client on the router's own machine has no address that means anything to an agent, and frameworks that look for the
// client skip it. There the router stands in for the load balancer, too, and writes one for documentation.
func setForwarded(p *httputil.ProxyRequest) {
	from, _, err := net.SplitHostPort(p.In.RemoteAddr)
	if err != nil {
		from = p.In.RemoteAddr
	}
	if address, err := netip.ParseAddr(from); err == nil && address.Unmap().IsLoopback() {
		from = localClient
	}
	if prior := p.In.Header["X-Forwarded-For"]; len(prior) > 0 {
		from = strings.Join(prior, ", ") + ", " + from
	}
	proto := "http"
	if sent := p.In.Header["X-Forwarded-Proto"]; len(sent) > 0 && sent[len(sent)-1] == "https" {
		proto = "https"
	}
	p.Out.Header["X-Forwarded-For"] = []string{from}
	p.Out.Header["X-Forwarded-Host"] = []string{p.Out.Host}
	p.Out.Header["X-Forwarded-Proto"] = []string{proto}
}
