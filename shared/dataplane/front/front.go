// Package front makes any container that serves HTTP an agent: it listens next to the container, checks the agent's
// credentials, and forwards the requests that pass. It also answers whether the container serves, whether a credential
// is accepted, and the links of the control plane that open the dashboard. It does not know the cluster, and it keeps
// nothing on disk.
package front

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/intake"
)

// Options configure a Front.
type Options struct {
	// Hostname is the agent's hostname: the only host that the front serves, and the audience of the links that open
	// the dashboard. If empty, the front serves every host and refuses every link.
	Hostname string
	// Port is the container's port on the loopback interface, and APIPort that of /v1; 0 means Port.
	Port, APIPort int
	// HealthPath is the container's health check. If empty, a container that accepts a connection is ready.
	HealthPath string
	// Credentials open the dashboard and the API.
	Credentials Credentials
	// ForwardCredentials also passes the checked Authorization header to the container, for images that check it
	// themselves. A request in a session carries the dashboard's credential then.
	ForwardCredentials bool
	// PublicPaths need no credential. One that ends with a slash stands for everything below it, another one for
	// itself.
	PublicPaths []string
	// KeysURL serves the public keys that verify links. If empty, every link is refused.
	KeysURL string
	// Source is the pod's address, from which the control plane is called: a gate on the way knows the agent by it. If
	// empty, the system chooses one.
	Source string
	// SleepAfter is how long an agent is idle before the front lets it sleep; 0 is never. That takes a control plane,
	// which has the address of KeysURL, and AgentID. An agent is idle to which the front forwards no request, and that
	// does not say that it is busy: on BusyPath of its container, or in the file dataplane.BusyFile in DataDir, where
	// its volume is. Either may be empty.
	SleepAfter                 time.Duration
	AgentID, BusyPath, DataDir string
	// DrainTime is how long Serve waits for requests in flight when it ends; 0 is 25 seconds.
	DrainTime time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Bounds of concurrent requests, so that the front stays within its memory.
const (
	// maxForwarded bounds the requests to the container.
	maxForwarded = 256
	// maxUnchecked bounds the requests of clients whose credentials are not accepted, or not yet.
	maxUnchecked = 64
)

// Front is the handler of an agent's port. It is safe for concurrent use.
type Front struct {
	options     Options
	credentials credentials
	attempts    *attempts
	paths       publicPaths
	public      *publicLimits
	sessions    *sessions
	door        *door
	links       *links
	health      *health
	dashboard   dashboard
	calls       *calls
	proxy       *httputil.ReverseProxy
	transport   *http.Transport
	origins     *http.CrossOriginProtection
	forwarded   chan struct{} // a token for each request that is being forwarded
	unchecked   atomic.Int64  // of clients, in flight and not forwarded
	draining    atomic.Bool
}

// New creates a Front. Close releases its connections.
func New(o Options) (*Front, error) {
	o.APIPort, o.DrainTime = cmp.Or(o.APIPort, o.Port), cmp.Or(o.DrainTime, drainTime)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Port == 0 {
		return nil, errors.New("the container's port is missing")
	}
	if o.Port == dataplane.FrontPort || o.APIPort == dataplane.FrontPort {
		return nil, fmt.Errorf("port %d is the front's own; the container needs another port", dataplane.FrontPort)
	}
	if err := checkPublicPaths(o.PublicPaths); err != nil {
		return nil, err
	}
	known, err := newCredentials(o.Credentials)
	if err != nil {
		return nil, err
	}
	after, err := sleepAfter(o)
	if err != nil {
		return nil, err
	}
	seal, err := newSeal(o.Credentials, o.Hostname)
	if err != nil {
		return nil, err
	}
	f := &Front{
		options: o, credentials: known, attempts: newAttempts(o.Now),
		paths: o.PublicPaths, public: newPublicLimits(o.Now),
		links: newLinks(o.KeysURL, o.Source, o.Hostname, o.Now), origins: http.NewCrossOriginProtection(),
		door: newDoor(o.Now, after), forwarded: make(chan struct{}, maxForwarded), transport: newTransport(),
	}
	f.sessions = newSessions(o.Now, seal, f.links.goesOn)
	f.health = newHealth(o)
	f.calls = newCalls(o.Now, f.door, f.callContainer)
	f.proxy = f.newProxy()
	return f, nil
}

// Close ends the sessions and the calls of schedules, and closes idle connections to the container and to the control
// plane.
func (f *Front) Close() {
	f.sessions.close()
	f.calls.close()
	f.transport.CloseIdleConnections()
	f.links.close()
}

// ServeHTTP serves the front's own paths and forwards all others to the container.
func (f *Front) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	last := f.draining.Load()
	if last {
		w.Header().Set("Connection", "close") // the router's next request goes to another connection
	}
	if last || req.Body != nil && req.Body != http.NoBody {
		answer, reading := intake.Duplex(w, req) // no answer waits for the request's body
		defer answer.Finish()
		w, req = answer, reading
	}
	if req.Header["X-Forwarded-For"] != nil { // the kubelet's come without
		defer f.unchecked.Add(-1)
		if f.unchecked.Add(1) > maxUnchecked {
			w.Header().Set("Retry-After", "1")
			refuse(w, false, http.StatusServiceUnavailable, "The agent refuses too many requests. Retry.")
			return
		}
	}
	api, ambiguous := isAPI(req.URL.Path)
	switch {
	case req.Method == http.MethodConnect:
		refuse(w, api, http.StatusMethodNotAllowed, "The method CONNECT is not allowed.")
	case !dataplane.IsPath(req.RequestURI):
		refuse(w, api, http.StatusBadRequest, dataplane.TargetRefused)
	case req.URL.Path == dataplane.PathReady:
		f.serveReady(w, req) // the kubelet asks for it by the pod's address
	case !f.isOwnHost(req.Host):
		refuse(w, api, http.StatusMisdirectedRequest, "The request is for another agent.")
	case req.URL.Path == dataplane.PathDashboard:
		f.serveDashboard(w, req)
	case req.URL.Path == dataplane.PathDoor:
		f.serveDoor(w)
	case req.URL.Path == dataplane.PathAuthCheck:
		f.serveAuthCheck(w, req)
	case req.URL.Path == dataplane.PathCalls, strings.HasPrefix(req.URL.Path, dataplane.PathCalls+"/"):
		f.serveCalls(w, req)
	case req.URL.Path == dataplane.PathHandoff:
		f.serveHandoff(w, req)
	case req.URL.Path == dataplane.PathLogout && f.serveLogout(w, req):
	case ambiguous:
		refuse(w, api, http.StatusBadRequest,
			"The path is ambiguous. Send it without dot segments, empty segments and backslashes, and /v1 in "+
				"lower case.")
	default:
		f.serveContainer(w, req, api)
	}
}

// isOwnHost reports whether a request is for this agent. For a moment after the cluster has given the address of a
// deleted pod to a new one, a router may send the new one requests for the former agent, with its users' credentials.
func (f *Front) isOwnHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return f.options.Hostname == "" || strings.EqualFold(host, f.options.Hostname)
}

// serveReady answers 200 if the container serves. It reveals nothing else, because anyone may ask.
func (f *Front) serveReady(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if f.draining.Load() || f.health.check(req.Context()) != nil {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "not ready", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ready\n")
}

// serveAuthCheck answers whether the agent accepts a credential of either kind. A session is none.
func (f *Front) serveAuthCheck(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	v := f.authenticate(req, f.credentials.anyKind)
	if v.status != http.StatusOK {
		f.challenge(w, v, false)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *Front) serveHandoff(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	if req.Method != http.MethodGet { // a HEAD of a link preview must not use the link up
		w.Header().Set("Allow", http.MethodGet)
		refuse(w, false, http.StatusMethodNotAllowed, "A link is opened with GET.")
		return
	}
	if to := req.Header.Get("Sec-Fetch-Dest"); to != "" && to != "document" {
		// Another site's page must not use up the attempts of its visitors' address, with an image for example.
		refuse(w, false, http.StatusForbidden, "A link is opened in a tab or window.")
		return
	}
	token := req.URL.Query().Get("token")
	var who person
	var err error
	ok, wait := f.attempts.try(clientAddress(req), func() bool {
		who, err = f.links.redeem(req.Context(), token)
		return err == nil
	})
	switch {
	case wait > 0:
		tooMany(w, false, wait)
	case !ok:
		refuse(w, false, http.StatusUnauthorized, "The link is refused: "+err.Error()+". Get a new link.")
	default:
		http.SetCookie(w, sessionCookie(req, f.sessions.start(req, who, token)))
		w.Header().Set("Location", "/")
		w.WriteHeader(http.StatusSeeOther)
	}
}

// serveLogout ends the session of a browser, and reports whether there was one. Other requests for the path are the
// container's.
func (f *Front) serveLogout(w http.ResponseWriter, req *http.Request) bool {
	if f.fromAnotherSite(req) || !f.sessions.logout(req) {
		return false
	}
	w.Header().Set("Cache-Control", "no-store")
	http.SetCookie(w, endedCookie(req))
	_, _ = io.WriteString(w, "You are signed out. A new link of the control plane opens the dashboard again.\n")
	return true
}

// serveContainer forwards a request that carries the credential of its path, or needs none.
func (f *Front) serveContainer(w http.ResponseWriter, req *http.Request, api bool) {
	var s *session
	if !api {
		s = f.sessions.enter(req)
	}
	if s != nil {
		defer f.sessions.leave(s)
		ctx, cancel := context.WithCancel(req.Context())
		defer cancel()
		defer context.AfterFunc(s.life, cancel)() // what is in flight ends with the session
		req = req.WithContext(ctx)
	}
	v := f.identify(req, s, api)
	if v.status != http.StatusOK {
		f.challenge(w, v, api)
		return
	}
	if v.browser && f.fromAnotherSite(req) {
		refuse(w, api, http.StatusForbidden, "The request comes from a page of another site, which may not use the "+
			"credentials of your browser.")
		return
	}
	if v.way == wayPublic {
		socket := isWebSocket(req)
		leave, ok := f.public.enter(clientAddress(req), socket)
		if !ok {
			w.Header().Set("Retry-After", "1")
			refuse(w, api, http.StatusTooManyRequests, "The agent gets too many requests without a credential. Retry.")
			return
		}
		defer leave()
		if !socket {
			ctx, cancel := context.WithTimeout(req.Context(), publicTime)
			defer cancel()
			req = req.WithContext(ctx)
		}
	}
	select {
	case f.forwarded <- struct{}{}:
		defer func() { <-f.forwarded }()
	default:
		w.Header().Set("Retry-After", "1")
		refuse(w, api, http.StatusServiceUnavailable,
			fmt.Sprintf("The agent serves %d requests already, which is the most it serves concurrently. Retry.",
				maxForwarded))
		return
	}
	if !f.door.admit(w.Header()) {
		refuseAtDoor(w, api)
		return
	}
	defer f.door.leave()
	f.unchecked.Add(-1)
	defer f.unchecked.Add(1)
	f.forward(w, req, v, api)
}

// identify finds out who sent a request to the container; s is its session, or nil.
//
// A public path needs no credential, and another Authorization header than the agent's is the container's own business
// there: senders of webhooks sign with it. It is no failed attempt. Guesses are bounded like all public requests. The
// page of another site may make a browser request a public path, but not in the name of its user.
func (f *Front) identify(req *http.Request, s *session, api bool) verdict {
	accepts := f.credentials.dashboard
	switch {
	case api:
		accepts = f.credentials.api
	case isWebSocket(req): // of programs, which have the API's key
		accepts = f.credentials.anyKind
	}
	anyone := verdict{status: http.StatusOK, way: wayPublic}
	public := !api && f.paths.have(req)
	var v verdict
	if _, ours := accepts(req.Header); s != nil {
		v = verdict{status: http.StatusOK, person: s.person, way: waySession, browser: true}
	} else if public && !ours {
		return anyone
	} else {
		v = f.authenticate(req, accepts)
	}
	if public && v.browser && f.fromAnotherSite(req) {
		return anyone
	}
	return v
}

// fromAnotherSite reports whether a page of another site made the browser send a request that may change something,
// that opens a WebSocket, or whose answer becomes a part of that page. The pages of other agents are other sites.
// Browsers send cookies with the requests of pages below the same parent domain whatever SameSite says, so
// Sec-Fetch-Site decides. A link on another site's page opens the agent in a separate tab or window.
func (f *Front) fromAnotherSite(req *http.Request) bool {
	h := req.Header
	if site := h.Get("Sec-Fetch-Site"); site == "same-site" || site == "cross-site" {
		if h.Get("Sec-Fetch-Mode") != "navigate" || h.Get("Sec-Fetch-Dest") != "document" {
			return true
		}
	}
	if h.Get("Upgrade") != "" {
		asUnsafe := *req
		asUnsafe.Method = http.MethodPost
		req = &asUnsafe
	}
	return f.origins.Check(req) != nil
}

// refuse answers with an error. Callers of the API get the body that clients of OpenAI's API understand.
func refuse(w http.ResponseWriter, api bool, status int, message string) {
	dataplane.Refuse(w, api, status, message)
}

// tooMany answers 429 with the time after which another attempt is checked.
func tooMany(w http.ResponseWriter, api bool, wait time.Duration) {
	seconds := int((wait + time.Second - 1) / time.Second)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	refuse(w, api, http.StatusTooManyRequests,
		fmt.Sprintf("Too many refused credentials from this address. Retry in %d s.", seconds))
}
