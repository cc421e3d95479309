package gate_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agents.example/controlplane/shared/dataplane/gate"
	"agents.example/controlplane/shared/egress"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

const (
	// patience bounds every wait. Only a failing test reaches it.
	patience = 2 * time.Minute
	// gateAddress is the address of the Service.
	gateAddress = "34.118.224.53"
	// agentID is the agent at agentAddress, and otherID that at otherAddress. The addresses are the machine's own.
	agentID, agentAddress = "agent-1", "127.0.0.2"
	otherID, otherAddress = "agent-2", "127.0.0.3"
	strangerAddress       = "127.0.0.4"
)

var (
	errNotPublic = errors.New("not a public address")
	secret       = []byte("a secret of a cell, of 32 bytes.")
)

// directory is the Policies of tests.
type directory struct {
	mu      sync.Mutex
	agents  map[netip.Addr]gate.Agent
	changed chan struct{}
}

func newDirectory() *directory {
	return &directory{agents: map[netip.Addr]gate.Agent{}, changed: make(chan struct{})}
}

func (d *directory) Lookup(address netip.Addr) (gate.Agent, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a, ok := d.agents[address]
	return a, ok
}

func (d *directory) Changed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// set gives an address to an agent. Without a policy, it takes the address away.
func (d *directory) set(address, id string, p *egress.Policy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := netip.MustParseAddr(address); p == nil {
		delete(d.agents, a)
	} else {
		d.agents[a] = gate.Agent{ID: id, Policy: p}
	}
	close(d.changed)
	d.changed = make(chan struct{})
}

// world is a gate, its agents and the internet.
type world struct {
	*directory
	gate                                *gate.Gate
	packets, queries, web, tls, metrics string
	stop                                context.CancelFunc
	ended                               chan error

	net     sync.Mutex
	hosts   map[string]string // addresses by name and port
	dialed  map[string]int    // by name and port
	reports []egress.Reports
	values  map[string]string
	read    map[string]int // reads of values
	roots   *x509.CertPool
	stall   map[string]chan struct{} // by name and port; dialing waits for them
}

// few is a gate that admits few connections of an address.
func few(n int) func(*gate.Options) {
	return func(o *gate.Options) { o.Limits.AddressConnections = n }
}

// slow is a gate that answers few queries.
func slow(o *gate.Options) { o.Limits.AgentQueries = 1 }

// holding is a gate that holds unknown addresses for a time.
func holding(d time.Duration) func(*gate.Options) {
	return func(o *gate.Options) { o.Timeouts.Hold = d }
}

// idle is a gate that ends silent connections soon.
func idle(d time.Duration) func(*gate.Options) {
	return func(o *gate.Options) { o.Timeouts.Idle = d }
}

// newWorld starts a gate. The test ends it.
func newWorld(t testing.TB, configure ...func(*gate.Options)) *world {
	t.Helper()
	w := &world{
		directory: newDirectory(), hosts: map[string]string{}, dialed: map[string]int{}, values: map[string]string{},
		read: map[string]int{}, roots: x509.NewCertPool(), ended: make(chan error, 1),
	}
	o := gate.Options{
		Address: netip.MustParseAddr(gateAddress), Policies: w.directory, Dial: w.dial,
		IsNotPublic: func(err error) bool { return errors.Is(err, errNotPublic) },
		Values:      w, Secret: secret, Roots: w.roots, Report: w.report, Instance: "gate-1",
		Timeouts: gate.Timeouts{TunnelIdle: 50 * time.Millisecond},
	}
	for _, c := range configure {
		c(&o)
	}
	g, err := gate.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.gate = g
	var config net.ListenConfig
	packets, err := config.ListenPacket(t.Context(), "udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := gate.Listeners{
		Packets: packets, Queries: listen(t), HTTP: listen(t), TLS: listen(t), Metrics: listen(t),
	}
	w.packets, w.queries = packets.LocalAddr().String(), l.Queries.Addr().String()
	w.web, w.tls, w.metrics = l.HTTP.Addr().String(), l.TLS.Addr().String(), l.Metrics.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.ended <- g.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-w.ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// end ends the gate now. Its result is checked when the test ends.
func (w *world) end() {
	w.stop()
	err := <-w.ended
	w.ended <- err
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.net.Lock()
	w.dialed[address]++
	to, ok := w.hosts[address]
	stalled := w.stall[address]
	w.net.Unlock()
	if stalled != nil {
		<-stalled
	}
	switch {
	case !ok:
		return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
	case to == "private":
		return nil, fmt.Errorf("10.0.0.1: %w", errNotPublic)
	}
	return new(net.Dialer).DialContext(ctx, network, to)
}

func (w *world) host(name, address string) {
	w.net.Lock()
	defer w.net.Unlock()
	w.hosts[name] = address
}

// stalled makes dialing a host wait.
func (w *world) stalled(name string, until chan struct{}) {
	w.net.Lock()
	defer w.net.Unlock()
	w.stall = map[string]chan struct{}{name: until}
}

func (w *world) dials(name string) int {
	w.net.Lock()
	defer w.net.Unlock()
	return w.dialed[name]
}

func (w *world) report(_ context.Context, r egress.Reports) error {
	w.net.Lock()
	defer w.net.Unlock()
	w.reports = append(w.reports, r)
	return nil
}

// Value implements gate.Values.
func (w *world) Value(_ context.Context, agentID, key string, version int64) (string, error) {
	w.net.Lock()
	defer w.net.Unlock()
	name := fmt.Sprintf("%s/%s/%d", agentID, key, version)
	w.read[name]++
	v, ok := w.values[name]
	if !ok {
		return "", errors.New("no such secret")
	}
	return v, nil
}

// counted returns what the gate has reported of an agent's host.
func (w *world) counted(agentID, host string) egress.Count {
	w.net.Lock()
	defer w.net.Unlock()
	var counts []egress.Count
	for _, m := range w.reports {
		for _, r := range m.Reports {
			if r.AgentID == agentID {
				counts = egress.Newer(counts, r.Hosts)
			}
		}
	}
	for _, c := range counts {
		if c.Host == host {
			return c
		}
	}
	return egress.Count{}
}

// from returns a dialer of an agent.
func from(address string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// open opens a connection to the gate.
func (w *world) open(t testing.TB, address, to string) net.Conn {
	t.Helper()
	c, err := from(address).DialContext(t.Context(), "tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(patience))
	return c
}

// echoes reports whether a connection from an address reaches a host that sends back what it gets.
func (w *world) echoes(t testing.TB, address string, sent []byte) bool {
	t.Helper()
	c := w.open(t, address, w.tls)
	_, _ = c.Write(sent)
	_, err := io.ReadFull(c, make([]byte, len(sent)))
	return err == nil
}

// client returns a client of an agent whose connections to ports 80 and 443 all lead to the gate.
func (w *world) client(t testing.TB, address string, roots *x509.CertPool) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	tr := &http.Transport{
		Protocols: protocols, TLSClientConfig: &tls.Config{RootCAs: roots},
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			at := w.web
			if _, port, _ := net.SplitHostPort(to); port == "443" {
				at = w.tls
			}
			return from(address).DialContext(ctx, network, at)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// answer is what a client got.
type answer struct {
	status int
	header http.Header
	body   string
	proto  string
}

func get(t testing.TB, c *http.Client, url string, change ...func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(req)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: res.StatusCode, header: res.Header, body: string(body), proto: res.Proto}
}

// serveHTTP starts a host on port 80.
func (w *world) serveHTTP(t testing.TB, name string, h http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	w.host(name+":80", s.Listener.Addr().String())
	return s
}

// serveTLS starts a host on port 443, with a certificate that the gate and the returned roots accept.
func (w *world) serveTLS(t testing.TB, name string, h http.HandlerFunc) *x509.CertPool {
	return w.serveTLSBy(t, name, true, h)
}

func (w *world) serveTLSBy(t testing.TB, name string, http2 bool, h http.HandlerFunc) *x509.CertPool {
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = http2
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certify(t, name)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	w.host(name+":443", s.Listener.Addr().String())
	roots := x509.NewCertPool()
	for _, pool := range []*x509.CertPool{roots, w.roots} {
		pool.AddCert(s.TLS.Certificates[0].Leaf)
	}
	return roots
}

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !condition(); {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
