package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/dataplane/router"
)

const (
	routerRounds   = 9
	routerRequests = 1500 // in a round
	routerClients  = 8
)

// oneAgent is a cell with one agent.
type oneAgent struct {
	namespace string
	endpoint  router.Endpoint
}

// Lookup implements router.Endpoints.
func (o oneAgent) Lookup(namespace string) router.Endpoint {
	if namespace != o.namespace {
		return router.Endpoint{}
	}
	return o.endpoint
}

// measureRouter compares the CPU time of a request through the router with that through the standard library's proxy.
func measureRouter(ctx context.Context, _ *environment) (_ Report, err error) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}`)
	}))
	defer upstream.Close()
	target, err := url.Parse(upstream.URL)
	if err != nil {
		return Report{}, err
	}
	a := agent.Agent{ID: uuid.NewString(), Slug: "agent", Cell: cell}
	r, err := router.New(router.Options{Domain: cell + "." + domain, Endpoints: oneAgent{a.Namespace(), router.Endpoint{
		State: router.Ready, Slug: a.Slug, Addr: netip.MustParseAddrPort(target.Host),
	}}})
	if err != nil {
		return Report{}, err
	}
	c := comparison{host: a.Hostname(agent.Addresses{Domain: domain}), floor: target}
	row, err := c.measure(ctx, func(ctx context.Context, l net.Listener) error { return r.Serve(ctx, l, nil) })
	row.ID, row.What, row.Most = "P13", "a request through the router", 1.3
	return Report{Rows: []Row{row}}, err
}

// comparison compares the CPU time of a request through two proxies. What the client and the server use is measured
// without a proxy, and subtracted. The rounds alternate, so that the load of the machine affects all alike; the figure
// is the median of the rounds' ratios.
type comparison struct {
	// host and key are those of the requests; key may be empty.
	host, key string
	// floor is the address of the server.
	floor *url.URL
}

// measure compares the proxy that serve runs with the standard library's proxy with the same transport settings and a
// pool of buffers.
func (c comparison) measure(ctx context.Context, serve func(context.Context, net.Listener) error) (_ Row, err error) {
	bare := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(c.floor)
			p.SetXForwarded()
			p.Out.Host = p.In.Host
		},
		Transport:  &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true},
		BufferPool: &intake.Buffers{}, // without it, the proxy takes 1.7 times as long
	})
	defer bare.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Row{}, err
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- serve(serving, listener) }()
	defer func() {
		stop()
		err = errors.Join(err, <-ended)
	}()
	return c.run(ctx, bare.Listener.Addr().String(), listener.Addr().String())
}

// run sends requests through both proxies, which have these addresses.
func (c comparison) run(ctx context.Context, bareAddress, ourAddress string) (Row, error) {
	var r rounds
	for round := range routerRounds + 1 {
		floor, err := c.cpuPerRequest(ctx, c.floor.Host)
		if err != nil {
			return Row{}, err
		}
		bare, err := c.cpuPerRequest(ctx, bareAddress)
		if err != nil {
			return Row{}, err
		}
		ours, err := c.cpuPerRequest(ctx, ourAddress)
		if err != nil {
			return Row{}, err
		}
		if round > 0 && bare > floor { // the first round opens connections
			r.add(ours-floor, bare-floor)
		}
	}
	row, err := r.row()
	row.Unit, row.Timed, row.Note = "µs of CPU", true, "limit: httputil.ReverseProxy"
	return row, err
}

// cpuPerRequest sends the requests of a round and returns the process' CPU time of one, in microseconds.
func (c comparison) cpuPerRequest(ctx context.Context, address string) (float64, error) {
	transport := &http.Transport{MaxIdleConnsPerHost: routerClients, DisableCompression: true}
	defer transport.CloseIdleConnections()
	send := func() error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/models", nil)
		if err != nil {
			return err
		}
		req.Host = c.host
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			return errors.Join(fmt.Errorf("a request got %d", res.StatusCode), err)
		}
		return nil
	}
	used, err := during(0, func() error { return sendAll(routerClients, routerRequests, send) })
	return float64(used.Microseconds()) / routerRequests, err
}

// sendAll sends requests, of which each client has a share. A client ends with its first failure.
func sendAll(clients, requests int, send func() error) error {
	var sending errgroup.Group
	for range clients {
		sending.Go(func() error {
			for range requests / clients {
				if err := send(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return sending.Wait()
}
