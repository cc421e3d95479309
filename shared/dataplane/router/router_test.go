package router_test

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/nettest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(crowdAddress); address != "" {
		crowd(address, os.Getenv(crowdHost))
		return
	}
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

const domain = "us-1.agents.example.com"

// directory is the Endpoints of tests.
type directory struct {
	mu     sync.Mutex
	agents map[string]router.Endpoint
}

func (d *directory) Lookup(namespace string) router.Endpoint {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.agents[namespace]
}

func (d *directory) set(a agent.Agent, e router.Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.agents == nil {
		d.agents = map[string]router.Endpoint{}
	}
	if e.State == router.Unknown {
		delete(d.agents, a.Namespace())
		return
	}
	e.Slug = a.Slug
	d.agents[a.Namespace()] = e
}

// patience bounds every wait. Only a failing test reaches it.
const patience = 2 * time.Minute

// world is a router and its agents, on real ports or in memory.
type world struct {
	t *testing.T
	directory
	router  *router.Router
	address string
	metrics string
	// dial connects to the router.
	dial  func(context.Context) (net.Conn, error)
	stop  context.CancelFunc
	ended chan error
	// pods has the agents' listeners by address if the connections are in memory; otherwise it is nil.
	pods map[string]nettest.Listener
}

// newWorld starts a router on a real port. The test ends it.
func newWorld(t *testing.T, configure ...func(*router.Options)) *world {
	t.Helper()
	traffic, metrics := listen(t), listen(t)
	w := &world{t: t, address: traffic.Addr().String(), metrics: metrics.Addr().String()}
	w.dial = func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", w.address)
	}
	w.serve(traffic, metrics, configure...)
	return w
}

// newMemoryWorld starts a router without metrics whose connections are all in memory, for tests in virtual time.
func newMemoryWorld(t *testing.T, configure ...func(*router.Options)) *world {
	t.Helper()
	traffic := nettest.Listen()
	w := &world{t: t, address: "router.test", dial: traffic.Dial, pods: map[string]nettest.Listener{}}
	w.serve(traffic, nil, append(configure, func(o *router.Options) {
		o.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
			w.mu.Lock()
			pod := w.pods[address]
			w.mu.Unlock()
			return pod.Dial(ctx)
		}
	})...)
	return w
}

// serve starts the router.
func (w *world) serve(traffic, metrics net.Listener, configure ...func(*router.Options)) {
	t := w.t
	t.Helper()
	w.ended = make(chan error, 1)
	o := router.Options{Domain: domain, Endpoints: w, Timeouts: router.Timeouts{TunnelIdle: time.Millisecond}}
	for _, c := range configure {
		c(&o)
	}
	var err error
	if w.router, err = router.New(o); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, w.stop = context.WithCancel(context.WithoutCancel(t.Context()))
	go func() { w.ended <- w.router.Serve(ctx, traffic, metrics) }()
	t.Cleanup(func() {
		w.stop()
		if err := <-w.ended; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// listenForAgent listens at a random loopback address, as pods have one each: after the agent is killed, no other test
// listens there. Where the operating system has only 127.0.0.1, it uses that.
func (w *world) listenForAgent() (net.Listener, netip.AddrPort) {
	w.t.Helper()
	host := netip.AddrFrom4([4]byte{127, byte(1 + rand.N(254)), byte(rand.N(256)), byte(1 + rand.N(254))})
	if w.pods != nil {
		l, address := nettest.Listen(), netip.AddrPortFrom(host, 1)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.pods[address.String()] = l
		return l, address
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(host, 0).String())
	if err != nil {
		l = listen(w.t)
	}
	return l, addressOf(l)
}

func addressOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// newAgent returns an agent without an address.
func newAgent(name string) agent.Agent {
	return agent.Agent{ID: uuid.NewString(), Slug: agent.Slug(name), Cell: "us-1"}
}

func hostname(a agent.Agent) string { return a.Hostname(agent.Addresses{Domain: "agents.example.com"}) }

// start starts an agent with a handler. The test ends it.
func (w *world) start(name string, h http.HandlerFunc) agent.Agent {
	w.t.Helper()
	a := newAgent(name)
	w.startAs(a, h)
	return a
}

// startAs starts the pod of an agent, and returns what kills it.
func (w *world) startAs(a agent.Agent, h http.HandlerFunc) (kill func()) {
	w.t.Helper()
	l, address := w.listenForAgent()
	s := &http.Server{Handler: h, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	kill = func() { _ = s.Close(); <-done }
	w.t.Cleanup(kill)
	w.ready(a, address)
	return kill
}

// ready makes an address the agent's.
func (w *world) ready(a agent.Agent, at netip.AddrPort) {
	w.set(a, router.Endpoint{State: router.Ready, Addr: at})
}

// client returns a client whose connections all go to the router.
func (w *world) client() *http.Client {
	t := &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) },
		DisableCompression: true,
	}
	w.t.Cleanup(t.CloseIdleConnections)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// answer is the status and the header of a response.
type answer struct {
	status int
	header http.Header
}

// request returns a request to an agent's host.
func (w *world) request(method, host, path string, body io.ReadCloser) *http.Request {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.address+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Host = host
	if body != nil {
		req.Body, req.ContentLength = body, -1
	}
	return req
}

// get sends a request to a host and returns the answer with its body.
func (w *world) get(host, path string, header ...string) (answer, string) {
	w.t.Helper()
	req := w.request(http.MethodGet, host, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return w.do(w.client(), req)
}

func (w *world) do(c *http.Client, req *http.Request) (answer, string) {
	w.t.Helper()
	res, err := c.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header}, string(body)
}

// scrape returns the metrics.
func (w *world) scrape() string {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://"+w.metrics+"/metrics", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, body := w.do(c, req)
	return body
}

// counts returns http_requests_total of a host by code.
func (w *world) counts(host string) map[string]string {
	w.t.Helper()
	found := map[string]string{}
	line := regexp.MustCompile(`(?m)^http_requests_total\{code="(\w+)",host="` + regexp.QuoteMeta(host) + `"\} (\S+)$`)
	for _, match := range line.FindAllStringSubmatch(w.scrape(), -1) {
		found[match[1]] = match[2]
	}
	return found
}

// awaitCount waits until the counts of a host are as wanted: a request is counted after the client has its answer.
func (w *world) awaitCount(host string, want map[string]string) {
	w.t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		got := w.counts(host)
		if maps.Equal(got, want) {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("http_requests_total of %q = %v, want %v", host, got, want)
		}
	}
}
