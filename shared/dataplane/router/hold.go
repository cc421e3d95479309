package router

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"agents.example/controlplane/shared/dataplane"
)

const (
	// holdPoll is how often a held request looks for its agent.
	holdPoll = 25 * time.Millisecond
	// doorPoll is how often a held request is sent again to the address that refused it.
	doorPoll = 250 * time.Millisecond
	// maxDoorBody bounds what is read of a refusal, so that its connection can be used again.
	maxDoorBody = 4 << 10
)

// Errors of requests that were held, or could not be.
var (
	// errWaking means that the agent did not answer in the time for which the request may be held, or that there was no
	// room to hold it.
	errWaking = errors.New("the agent is waking up")
	// errNoCredential means that the request may not wake the agent.
	errNoCredential = errors.New("the request has no credential")
	// errBodyRead means that the agent refused a request whose body cannot be sent again.
	errBodyRead = errors.New("the request's body was read by an agent that fell asleep")
)

// isOwnPath reports whether the front itself serves a path. Such a request says nothing about the use of the agent: it
// wakes none and is not held.
func isOwnPath(path string) bool {
	switch path {
	case dataplane.PathAuthCheck, dataplane.PathHandoff, dataplane.PathLogout:
		return true
	}
	return strings.HasPrefix(path, "/health/")
}

// mayWake reports whether a request may wake its agent: it has what may be a credential, or open says that its path
// needs none.
func mayWake(req *http.Request, public dataplane.PublicSet) (may, open bool) {
	cookie := dataplane.PlainCookie
	if overHTTPS(req) {
		cookie = dataplane.SecureCookie
	}
	switch {
	case public.Has(req):
		return true, true
	case req.Header.Get("Authorization") != "":
		return true, false
	default:
		return len(req.CookiesNamed(cookie)) > 0, false
	}
}

// challenge asks for a credential as the front does, so that a browser asks its user and then wakes the agent.
func challenge(w http.ResponseWriter, req *http.Request) {
	api := dataplane.IsAPIPath(req.URL.Path)
	dataplane.Refuse(w, api, http.StatusUnauthorized, dataplane.Challenge(w.Header(), api))
}

// sendPatiently sends a request to an agent that requests wake. While the agent has no pod, and while its front refuses
// requests unread because it is about to lose it, the request is held. It is sent again only if no byte of its body was
// read.
func (a *route) sendPatiently(x *exchange, req *http.Request) (*http.Response, error) {
	for out := req; ; {
		body := lend(x, req)
		if body != nil {
			out = out.WithContext(req.Context())
			out.Body = body
		}
		res, err := a.send(out)
		if !refusedUnread(res, err) || req.Context().Err() != nil {
			return res, err
		}
		if res != nil {
			_, _ = io.CopyN(io.Discard, res.Body, maxDoorBody) // less is what is wanted
			_ = res.Body.Close()
		}
		if !body.takeBack() {
			return nil, errBodyRead
		}
		address, err := a.await(req, x, out.URL.Host)
		if err != nil {
			return nil, err
		}
		out = req.WithContext(req.Context())
		moved := *req.URL
		moved.Host = address
		out.URL = &moved
	}
}

// refusedUnread reports whether no part of the agent's pod has read a request.
func refusedUnread(res *http.Response, err error) bool {
	if err != nil {
		return errors.Is(err, errNotReady) || neverConnected(err)
	}
	return isDoor(res)
}

// isDoor reports whether an answer is that of a front whose door is closed.
func isDoor(res *http.Response) bool {
	return res.StatusCode == http.StatusServiceUnavailable && res.Header[dataplane.HeaderDoor] != nil
}

// await holds a request until its agent may take it, and returns the agent's address. tried is the address that did not
// take it, or empty.
func (a *route) await(req *http.Request, x *exchange, tried string) (string, error) {
	r, now := a.router, time.Now()
	endpoint := r.endpoints.Lookup(a.namespace)
	if x.holdUntil.IsZero() {
		if err := a.beginHold(x, endpoint, now); err != nil {
			return "", err
		}
	}
	r.wakes.ask(a, now) // also if there is no room: a browser comes again
	if !r.held.enter(a, endpoint.Organization) {
		return "", errWaking
	}
	defer func() { x.held += time.Since(now) }()
	defer r.held.leave(a, endpoint.Organization)
	if x.early == nil && req.Body != nil {
		x.early = readEarly(req)
	}
	return a.awaitAddress(req.Context(), x, tried)
}

// beginHold decides whether a request may be held, and for how long.
func (a *route) beginHold(x *exchange, endpoint Endpoint, now time.Time) error {
	may, open := mayWake(x.in, endpoint.Public)
	if !may {
		return errNoCredential
	}
	rights := wakeRights{known: a.clients.knows(x.address, now), open: open}
	began, wait := a.wakeLimit.begin(x.address, rights, now)
	if wait > 0 {
		a.router.metrics.wakesLimited.Inc()
		return wakeLimitedError{wait}
	}
	x.beganWake = began
	x.holdUntil = now.Add(a.router.timeouts.Hold)
	if acceptsPage(x.in) {
		x.holdUntil = now.Add(a.router.timeouts.HoldPage)
	}
	return nil
}

// awaitAddress waits for an address that may take a request.
func (a *route) awaitAddress(ctx context.Context, x *exchange, tried string) (string, error) {
	tick := time.NewTicker(holdPoll)
	defer tick.Stop()
	for again := time.Now().Add(doorPoll); ; {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
		if err := x.early.broken(); err != nil {
			return "", err
		}
		now := time.Now()
		endpoint := a.router.endpoints.Lookup(a.namespace)
		switch {
		case endpoint.State == Ready:
			address := a.textOf(endpoint.Addr)
			if address != tried {
				a.wakeDue.Store(0) // the agent was woken; its next wake is another one
			}
			if (address != tried || !now.Before(again)) && x.early.ended() {
				return address, nil
			}
		case endpoint.State != NotReady || !endpoint.Wakes:
			return "", errNotReady
		}
		if !now.Before(x.holdUntil) {
			return "", errWaking
		}
		a.router.wakes.ask(a, now)
	}
}

// heldRequests counts the requests that are held.
type heldRequests struct {
	limits Limits

	mu             sync.Mutex
	all            int
	ofOrganization map[string]int
}

// enter reports whether there is room for one more. Then it must leave. As slots do, it takes another request of an
// organization only while that has fewer than are free. Those of an unknown organization are not counted as one's.
func (h *heldRequests) enter(a *route, organization string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a.held >= h.limits.AgentHeld ||
		h.ofOrganization[organization] >= min(h.limits.OrganizationHeld, h.limits.Held-h.all) {
		return false
	}
	h.all++
	a.held++
	if organization != "" {
		h.ofOrganization[organization]++
	}
	return true
}

func (h *heldRequests) leave(a *route, organization string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all--
	a.held--
	if organization == "" {
		return
	}
	if h.ofOrganization[organization]--; h.ofOrganization[organization] == 0 {
		delete(h.ofOrganization, organization)
	}
}

func (h *heldRequests) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all
}
