package agentprobe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/nettest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

func testAgent() agent.Agent {
	return agent.Agent{ID: "5b9f8c0a-7d1e-4c53-9a8e-2f64d1a7c3b9", Slug: "research", Cell: "cell"}
}

func addresses(scheme, port string) agent.Addresses {
	return agent.Addresses{Domain: "agents.test", Scheme: scheme, Port: port}
}

// hostOf is the address of a server as host:port.
func hostOf(t *testing.T, s *httptest.Server) string {
	t.Helper()
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

func wantUnhealthy(t *testing.T, err error, reason string, status int) {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Kind != fault.Unavailable || f.Code != "gateway_unhealthy" {
		t.Fatalf("error %v, want Unavailable gateway_unhealthy", err)
	}
	if f.Meta["reason"] != reason {
		t.Errorf("reason %v, want %s (%v)", f.Meta["reason"], reason, err)
	}
	if got, _ := f.Meta["http_status"].(int); got != status {
		t.Errorf("http_status %d, want %d", got, status)
	}
}

func TestProbe_AsksTheHostnameForReadiness(t *testing.T) {
	t.Parallel()
	a := testAgent()
	var asked atomic.Value
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked.Store(r.Method + " " + r.Host + r.URL.Path) })
	_, port, err := net.SplitHostPort(hostOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	for _, dial := range []string{hostOf(t, s), "127.0.0.1", "localhost"} {
		p := New(Options{Addresses: addresses("http", port), DialAddress: dial})
		if err := p.Probe(t.Context(), a); err != nil {
			t.Errorf("through %s: %v", dial, err)
		}
		want := "GET " + a.Hostname(addresses("http", port)) + ":" + port + "/health/ready"
		if asked.Load() != want {
			t.Errorf("the agent was asked %v, want %s", asked.Load(), want)
		}
	}
}

// A connection that is kept would prove nothing about the way to the agent.
func TestProbe_ConnectsEachTime(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
	for range 3 {
		if err := p.Probe(t.Context(), testAgent()); err != nil {
			t.Fatal(err)
		}
	}
	if got := connections.Load(); got != 3 {
		t.Errorf("three probes made %d connections, want 3", got)
	}
}

func TestProbe_ReportsWhyTheAgentIsUnhealthy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		reason  string
		status  int
	}{
		"no route": {
			handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
			reason:  "bad_status", status: 404,
		},
		"starting": {handler: func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusServiceUnavailable)
		}, reason: "bad_status", status: 503},
		"not the answer": {handler: func(w http.ResponseWriter,
			_ *http.Request,
		) {
			w.WriteHeader(http.StatusNoContent)
		}, reason: "bad_status", status: 204},
		"too much": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 2*maxHeaderBytes))
		}, reason: "connect", status: 0},
		"hangs up": {
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			reason:  "connect", status: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.handler)
			p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
			wantUnhealthy(t, p.Probe(t.Context(), testAgent()), test.reason, test.status)
		})
	}
}

// An agent must not be able to send the probe elsewhere.
func TestProbe_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var visited atomic.Bool
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { visited.Store(true) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) })
		p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
		wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "bad_status", status)
	}
	if visited.Load() {
		t.Error("a redirect was followed")
	}
}

// An endless answer must not cost time or memory.
func TestProbe_ReadsNoBody(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		chunk := make([]byte, 1<<16)
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	p := New(Options{Addresses: addresses("http", ""), DialAddress: hostOf(t, s)})
	if err := p.Probe(t.Context(), testAgent()); err != nil {
		t.Error(err)
	}
	<-ended // the connection was closed on it
}

func TestProbe_EndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := New(Options{Addresses: addresses("http", "")})
		p.client.Transport = nettest.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}))
		for _, callerTimeout := range []time.Duration{time.Hour, time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), callerTimeout)
			begun := time.Now()
			wantUnhealthy(t, p.Probe(ctx, testAgent()), "timeout", 0)
			cancel()
			if took, want := time.Since(begun), min(callerTimeout, probeTimeout); took != want {
				t.Errorf("caller's timeout %s: took %s, want %s", callerTimeout, took, want)
			}
		}
	})
}

func TestProbe_ChecksCertificates(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes are to fail
	s.StartTLS()
	t.Cleanup(s.Close)
	p := New(Options{Addresses: addresses("https", ""), DialAddress: hostOf(t, s)})
	wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "tls", 0)

	// A certificate for another name, by an authority that is trusted.
	trusted := x509.NewCertPool()
	trusted.AddCert(s.Certificate())
	p = New(Options{Addresses: addresses("https", ""), DialAddress: hostOf(t, s), TLS: &tls.Config{RootCAs: trusted}})
	wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "tls", 0)

	// The test server's certificate is for example.com and names below it.
	own, covered := agent.Addresses{Domain: "com", Scheme: "https"}, testAgent()
	covered.Cell = "example"
	p = New(Options{Addresses: own, DialAddress: hostOf(t, s), TLS: &tls.Config{RootCAs: trusted}})
	if err := p.Probe(t.Context(), covered); err != nil {
		t.Error(err)
	}

	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	p = New(Options{Addresses: addresses("https", ""), DialAddress: hostOf(t, plain)})
	wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "tls", 0)
}

func TestProbe_ReportsUnreachableAndUnknownHosts(t *testing.T) {
	t.Parallel()
	p := New(Options{Addresses: addresses("http", ""), DialAddress: nettest.Refusing(t).String()})
	wantUnhealthy(t, p.Probe(t.Context(), testAgent()), "connect", 0)
	wantUnhealthy(t, p.Probe(t.Context(), agent.Agent{ID: "no id"}), "dns", 0)
	unknown := newProber(Options{Addresses: addresses("http", "")},
		func(_ context.Context, _, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		})
	wantUnhealthy(t, unknown.Probe(t.Context(), testAgent()), "dns", 0)
	inside := newProber(Options{Addresses: addresses("http", "")},
		func(context.Context, string, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		})
	wantUnhealthy(t, inside.Probe(t.Context(), testAgent()), "dns", 0)
	empty := newProber(Options{Addresses: addresses("http", "")},
		func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil })
	wantUnhealthy(t, empty.Probe(t.Context(), testAgent()), "dns", 0)
}
