package dataplane_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/dataplane/router"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

const domain = "us-1.agents.example.com"

// TestTargets_OnlyPathsAreServed sends the dashboard's credential with targets that proxies and servers have read
// differently, to a router and to a front. Go's client cannot write them.
func TestTargets_OnlyPathsAreServed(t *testing.T) {
	t.Parallel()
	var forwarded atomic.Int64
	container := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { forwarded.Add(1) }))
	defer container.Close()
	a := agent.Agent{ID: uuid.NewString(), Slug: "a", Cell: "us-1"}
	host := a.Hostname(agent.Addresses{Domain: "agents.example.com"})
	f, err := front.New(front.Options{
		Hostname: host, Port: int(addressOf(container.Listener).Port()), DrainTime: 1,
		Credentials: front.Credentials{Username: "admin", Password: "canary", APIKey: "canary-key"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	frontAddress := serve(t, f.Serve)
	r, err := router.New(router.Options{Domain: domain, Endpoints: at{a.Slug, frontAddress}})
	if err != nil {
		t.Fatal(err)
	}
	routerAddress := serve(t, func(ctx context.Context, l net.Listener) error { return r.Serve(ctx, l, nil) })
	for _, row := range []struct {
		method, target string
		host           string // the agent's if empty
		want           int
		wantRouter     int // want if 0
	}{
		{target: "http:v1/x", want: http.StatusBadRequest},
		{target: "http:http:http://h/v1/x", want: http.StatusBadRequest},
		{target: "x:y:/v1/x", want: http.StatusBadRequest},
		{target: "http:?/v1", want: http.StatusBadRequest},
		{target: "http:", want: http.StatusBadRequest},
		{target: "http:/v1/x", want: http.StatusBadRequest},
		{target: "http://host/v1/x", want: http.StatusBadRequest},
		{target: "http://" + host + "/x", want: http.StatusBadRequest},
		{target: "http://" + host + "/health/ready", want: http.StatusBadRequest},
		{target: "http://192.0.2.1/healthz", want: http.StatusBadRequest},
		{target: "https://" + host, want: http.StatusBadRequest},
		{target: "v1/x", want: http.StatusBadRequest},
		{target: "?/v1", want: http.StatusBadRequest},
		{target: "*", want: http.StatusBadRequest},
		{method: http.MethodOptions, target: "*", want: http.StatusBadRequest},
		{method: http.MethodOptions, target: "http:http://h/v1/x", want: http.StatusBadRequest},
		{method: http.MethodConnect, target: "http:v1/x", want: http.StatusBadRequest},
		{method: http.MethodConnect, target: host + ":443", want: http.StatusMethodNotAllowed},
		{target: "/x", want: http.StatusOK},
		{target: "/?target=http:v1/x", want: http.StatusOK},
		{target: "//host/v1/x", want: http.StatusOK},
		{target: "/http://host/v1/x", want: http.StatusOK},
		{target: "/v1/x", want: http.StatusUnauthorized},
		{target: "//v1/x", want: http.StatusBadRequest},
		{target: "/V1/x", want: http.StatusBadRequest},
		{target: "/health/ready", host: "192.0.2.1:8080", want: http.StatusOK, wantRouter: http.StatusNotFound},
		{target: "/healthz", host: "192.0.2.1", want: http.StatusMisdirectedRequest, wantRouter: http.StatusOK},
	} {
		if row.method == "" {
			row.method = http.MethodGet
		}
		if row.host == "" {
			row.host = host
		}
		for to, address := range map[string]netip.AddrPort{"router": routerAddress, "front": frontAddress} {
			want := row.want
			if to == "router" && row.wantRouter != 0 {
				want = row.wantRouter
			}
			before := forwarded.Load()
			status, body := send(t, address, row.method, row.target, row.host)
			if status != want {
				t.Errorf("%s %s to the %s: got %d, want %d: %s", row.method, row.target, to, status, want, body)
			}
			isPath := strings.HasPrefix(row.target, "/")
			if forwarded.Load() != before && !isPath {
				t.Errorf("%s %s through the %s reached the container", row.method, row.target, to)
			}
		}
	}
	if status, body := send(t, routerAddress, http.MethodGet, "http:v1/x", host); status != http.StatusBadRequest ||
		!strings.Contains(body, dataplane.TargetRefused) {
		t.Errorf("the router's answer is %q, want it to say what to send", body)
	}
}

// at is where the only agent is.
type at struct {
	slug string
	addr netip.AddrPort
}

// Lookup implements router.Endpoints.
func (a at) Lookup(string) router.Endpoint {
	return router.Endpoint{State: router.Ready, Addr: a.addr, Slug: a.slug}
}

func addressOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// serve serves until the test ends, and returns the address.
func serve(t *testing.T, run func(context.Context, net.Listener) error) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := addressOf(l)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = run(ctx, l) }()
	t.Cleanup(func() { stop(); <-ended })
	return address
}

// send writes a request with the dashboard's credential, and returns the answer.
func send(t *testing.T, to netip.AddrPort, method, target, host string) (status int, body string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // all is read
	_, err = fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Basic %s\r\nConnection: close\r\n\r\n",
		method, target, host, base64.StdEncoding.EncodeToString([]byte("admin:canary")))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer res.Body.Close() //nolint:errcheck // all is read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
