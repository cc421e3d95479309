// Package router forwards requests from the load balancer to agents. It finds the agent by the request's hostname,
// keeps one agent's clients from exhausting what all agents share, and counts requests.
//
// It holds no credential and authenticates no request: the front in the agent's pod does. It does not watch the cluster
// either; a port reports the address of each agent.
package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

// Router is the handler of all requests for the agents of a cell.
type Router struct {
	domain    string // lower-case
	endpoints Endpoints
	limits    Limits
	timeouts  Timeouts
	transport *http.Transport
	buffers   intake.Buffers
	metrics   *metrics
	tunnels   tunnels
	// failures bounds log lines about agents that could not be reached.
	failures *rate.Limiter
	// wakes asks for agents to be woken; nil if nothing wakes them.
	wakes *wakes
	held  heldRequests

	inFlight atomic.Int64
	memory   atomic.Int64 // of the requests in flight
	waiting  atomic.Int64 // requests of strangers
	draining atomic.Bool

	mu     sync.RWMutex
	routes map[string]*route
	// sweepAt is the number of routes at which those of agents that are gone are dropped.
	sweepAt int
}

// New returns a router.
func New(o Options) (*Router, error) {
	if o.Domain == "" || strings.Trim(o.Domain, ".") != o.Domain {
		return nil, fmt.Errorf("router: %q is not the domain of a cell, such as us-1.agents.example.com", o.Domain)
	}
	if o.Endpoints == nil {
		return nil, errors.New("router: Endpoints is required")
	}
	r := &Router{
		domain: strings.ToLower(o.Domain), endpoints: o.Endpoints, limits: o.Limits.withDefaults(),
		timeouts: o.Timeouts.withDefaults(), routes: map[string]*route{}, sweepAt: minSweep,
		failures: rate.NewLimiter(failureLogs, failureLogs),
	}
	r.transport = newTransport(r.timeouts, o.Dial)
	r.metrics = newMetrics(r)
	r.held = heldRequests{limits: r.limits, ofOrganization: map[string]int{}}
	if o.Waker != nil {
		r.wakes = newWakes(r, o.Waker)
	}
	return r, nil
}

const (
	minSweep    = 1024
	failureLogs = 10 // a second
	healthPath  = "/healthz"
)

// ServeHTTP forwards a request to the agent that its hostname names.
//
// Requests for /healthz on hosts outside the cell's domain are those of the load balancer's health check, which sends
// an IP address as its host. On an agent's hostname, /healthz belongs to the agent.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	// While the router drains, the load balancer's next request must go to another replica. And a request with chunks
	// may have had a Content-Length, too, which net/http hides: a proxy that went by the length would take what follows
	// for a part of this request, so it must not be answered as another one (RFC 9112, 6.1).
	if req.ProtoMajor == 1 && (len(req.TransferEncoding) > 0 || r.draining.Load() && req.Header["Upgrade"] == nil) {
		w.Header().Set("Connection", "close")
	}
	host, _ := splitHost(req.Host)
	isPath := dataplane.IsPath(req.RequestURI)
	if isPath && req.URL.Path == healthPath && !r.isCellHost(host) {
		r.serveHealth(w)
		return
	}
	answer, req := intake.Duplex(w, req) // no answer waits for the request's body
	defer answer.Finish()
	if !isPath && req.Method != http.MethodConnect {
		refuse(answer, req, targetRefused)
		return
	}
	a, endpoint := r.find(host)
	switch {
	case a == nil:
		r.metrics.countUnknown()
		refuse(answer, req, unknownHost)
	case req.Method == http.MethodConnect:
		a.count(req, http.StatusMethodNotAllowed)
		refuse(answer, req, connectRefused)
	case endpoint.State == Ready:
		r.forward(answer, req, a, r.holds(req, endpoint))
	case endpoint.State != NotReady || !r.holds(req, endpoint):
		if !endpoint.Wakes { // others may sleep
			a.count(req, http.StatusServiceUnavailable)
		}
		refuse(answer, req, endpoint.State.refusal())
	default:
		if may, _ := mayWake(req, endpoint.Public); !may {
			a.count(req, http.StatusUnauthorized)
			challenge(answer, req)
			return
		}
		r.forward(answer, req, a, true)
	}
}

// holds reports whether a request may wait for an agent that requests wake.
func (r *Router) holds(req *http.Request, e Endpoint) bool {
	return e.Wakes && r.wakes != nil && !isOwnPath(req.URL.Path)
}

// forward sends a request to an agent, if the limits leave room for it. wakes says that it may be held.
func (r *Router) forward(w *intake.Writer, req *http.Request, a *route, wakes bool) {
	memory := memoryOf(req)
	defer r.memory.Add(-memory)
	defer r.inFlight.Add(-1)
	if requests, used := r.inFlight.Add(1), r.memory.Add(memory); requests > r.limits.Requests ||
		used > r.limits.Memory {
		a.refuse(w, req, routerBusy, r.metrics.routerLimit)
		return
	}
	address, answered := clientAddress(req), func() {}
	if !a.clients.knows(address, time.Now()) {
		if !r.awaitTurn(req.Context(), a, address) {
			a.refuse(w, req, agentBusy, r.metrics.strangerLimit)
			return
		}
		answered = sync.OnceFunc(a.clients.leave)
		defer answered()
	}
	defer a.memory.Add(-memory)
	defer a.inFlight.Add(-1)
	if requests, used := a.inFlight.Add(1), a.memory.Add(memory); requests > r.requestsShare() ||
		used > r.memoryShare(r.memory.Load(), memory) {
		a.refuse(w, req, agentBusy, r.metrics.agentLimit)
		return
	}
	x := &exchange{
		Writer: w, tunnels: &r.tunnels, began: time.Now(), answered: answered, in: req, address: address, wakes: wakes,
	}
	if p := req.URL.Path; p != dataplane.PathReady && p != dataplane.PathDoor { // which a front answers anyone
		x.accepted = func() { a.clients.learn(address, time.Now()) }
	}
	defer func() { a.observe(x, req.Context().Err() != nil) }()
	req = req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x))
	a.proxy.ServeHTTP(x, req) // it panics with http.ErrAbortHandler if the answer breaks off
	x.complete = true
}

// requestsShare returns how many concurrent requests an agent may have with the one that begins. It may have another
// one only while it has fewer than are free, so that few agents together cannot take all of them from the others.
func (r *Router) requestsShare() int64 {
	return min(r.limits.AgentRequests, r.limits.Requests-r.inFlight.Load()+1)
}

// serveHealth answers the load balancer.
func (r *Router) serveHealth(w http.ResponseWriter) {
	w.Header().Set("Cache-Control", "no-store")
	if r.draining.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusOK)
}
