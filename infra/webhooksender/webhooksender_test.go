package webhooksender

import (
	"bytes"
	"context"
	"crypto/x509"
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

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"agents.example/controlplane/infra/publicnet"
	"agents.example/controlplane/shared/nettest"
	"agents.example/controlplane/shared/webhook"
)

// secret returns the signing secret of the tests' webhook.
func secret(t *testing.T) webhook.Secret {
	t.Helper()
	secrets, err := webhook.NewSecrets(bytes.Repeat([]byte("k"), webhook.MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	s, err := secrets.Of(webhook.Webhook{ID: "w", SecretVersion: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func message(t *testing.T, to string) webhook.Message {
	t.Helper()
	return webhook.Message{
		URL: to, ID: "event-1", At: time.Now(), Body: []byte(`{"type":"agent.running"}`),
		Secrets: []webhook.Secret{secret(t)},
	}
}

// always resolves every name to an address.
func always(address string) publicnet.Lookup {
	return func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr(address)}, nil
	}
}

// receiver starts a receiver at https://example.com:PORT, and returns its URL and a sender that reaches it. Local
// policy is the only way to let a sender reach this machine.
func receiver(t *testing.T, handler http.HandlerFunc) (to string, s *Sender) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // some handshakes must fail
	server.StartTLS()
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return "https://example.com:" + u.Port() + "/hook", New(Options{
		Policy: webhook.URLPolicy{AllowLoopback: true}, Find: always("127.0.0.1"), RootCAs: trusted,
	})
}

// waitForEnd waits until the sender ends a request. A server notices that only after it has read the body.
func waitForEnd(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestSend_IsVerifiedByTheOfficialLibrary(t *testing.T) {
	t.Parallel()
	verifier, err := standardwebhooks.NewWebhook(secret(t).Reveal())
	if err != nil {
		t.Fatal(err)
	}
	problems := make(chan string, 10)
	to, s := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		defer close(problems)
		body, err := io.ReadAll(r.Body)
		if err != nil {
			problems <- err.Error()
		}
		if err := verifier.Verify(body, r.Header); err != nil {
			problems <- err.Error()
		}
		if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
			r.URL.Path != "/hook" || r.Header.Get("Webhook-Id") != "event-1" {
			problems <- r.Method + r.URL.Path
		}
	})
	if got := s.Send(t.Context(), message(t, to)); !got.OK() || got.HTTPStatus != http.StatusOK {
		t.Errorf("Send = %+v, want a success", got)
	}
	for p := range problems {
		t.Error(p)
	}
}

func TestSend_ReportsWhyAnAttemptFailed(t *testing.T) {
	t.Parallel()
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	busy := func(retryAfter string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", retryAfter)
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		want    webhook.Result
	}{
		"asks for two minutes": {handler: busy("120"), want: webhook.Result{
			HTTPStatus: 429, Reason: webhook.ReasonStatus, RetryAfter: 2 * time.Minute,
		}},
		"asks for a time that is over": {
			handler: busy("Fri, 31 Dec 1999 23:59:59 GMT"),
			want:    webhook.Result{HTTPStatus: 429, Reason: webhook.ReasonStatus},
		},
		"asks for nonsense": {
			handler: busy("-5"), want: webhook.Result{HTTPStatus: 429, Reason: webhook.ReasonStatus},
		},
		"accepted":   {handler: status(202), want: webhook.Result{HTTPStatus: 202}},
		"no content": {handler: status(204), want: webhook.Result{HTTPStatus: 204}},
		"not found":  {handler: status(404), want: webhook.Result{HTTPStatus: 404, Reason: webhook.ReasonStatus}},
		"broken":     {handler: status(500), want: webhook.Result{HTTPStatus: 500, Reason: webhook.ReasonStatus}},
		"header with policies and cookies": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", strings.Repeat("x", 4*maxAnswerBytes))
		}, want: webhook.Result{HTTPStatus: 200}},
		"endless header": {handler: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Large", strings.Repeat("x", 4*maxHeaderBytes))
		}, want: webhook.Result{Reason: webhook.ReasonConnect}},
		"hangs up": {
			handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			want:    webhook.Result{Reason: webhook.ReasonConnect},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to, s := receiver(t, c.handler)
			got := s.Send(t.Context(), message(t, to))
			got.Latency = 0
			if got != c.want {
				t.Errorf("Send = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestSend_FollowsNoRedirect(t *testing.T) {
	t.Parallel()
	var visited atomic.Bool
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visited.Store(true) }))
	t.Cleanup(elsewhere.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		to, s := receiver(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, status)
		})
		if got := s.Send(t.Context(), message(t, to)); got.HTTPStatus != status || got.Reason != webhook.ReasonStatus {
			t.Errorf("Send = %+v, want a failure with status %d", got, status)
		}
	}
	if visited.Load() {
		t.Error("a redirect was followed")
	}
}

// An endless answer must not cost time or memory.
func TestSend_ReadsLittleOfTheAnswer(t *testing.T) {
	t.Parallel()
	cut := make(chan bool, 1)
	to, s := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
		chunk := make([]byte, 1<<16)
		for range 1 << 8 { // more than the buffers of a connection hold
			if _, err := w.Write(chunk); err != nil {
				cut <- true
				return
			}
		}
		cut <- false
	})
	if got := s.Send(t.Context(), message(t, to)); !got.OK() {
		t.Errorf("Send = %+v, want a success", got)
	}
	if !<-cut {
		t.Error("the sender read the whole answer of 16 MiB")
	}
}

func TestSend_ChecksCertificates(t *testing.T) {
	t.Parallel()
	to, s := receiver(t, func(http.ResponseWriter, *http.Request) {})
	other := strings.Replace(to, "example.com", "example.org", 1) // the certificate is for example.com
	if got := s.Send(t.Context(), message(t, other)); got.Reason != webhook.ReasonTLS {
		t.Errorf("a certificate for another name: %+v, want tls", got)
	}
	untrusting := New(Options{Policy: webhook.URLPolicy{AllowLoopback: true}, Find: always("127.0.0.1")})
	if got := untrusting.Send(t.Context(), message(t, to)); got.Reason != webhook.ReasonTLS {
		t.Errorf("a certificate of an unknown authority: %+v, want tls", got)
	}
	plain := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(plain.Close)
	https := strings.Replace(plain.URL, "http://127.0.0.1", "https://example.com", 1)
	if got := s.Send(t.Context(), message(t, https)); got.Reason != webhook.ReasonTLS {
		t.Errorf("a receiver without TLS: %+v, want tls", got)
	}
}

func TestSend_ReportsUnreachableHosts(t *testing.T) {
	t.Parallel()
	local := webhook.URLPolicy{AllowLoopback: true}
	refused := New(Options{Policy: local, Find: always("127.0.0.1")})
	_, port, err := net.SplitHostPort(nettest.Refusing(t).String())
	if err != nil {
		t.Fatal(err)
	}
	if got := refused.Send(t.Context(), message(t, "https://example.com:"+port)); got.Reason != webhook.ReasonConnect {
		t.Errorf("nothing listens: %+v, want connect", got)
	}
	for name, find := range map[string]publicnet.Lookup{
		"no addresses": func(context.Context, string, string) ([]netip.Addr, error) { return nil, nil },
		"no name": func(_ context.Context, _, host string) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
		},
	} {
		got := New(Options{Find: find}).Send(t.Context(), message(t, "https://hooks.example.com/"))
		if got.Reason != webhook.ReasonDNS {
			t.Errorf("%s: %+v, want dns", name, got)
		}
	}
}

func TestSend_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	to, s := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		waitForEnd(r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	go func() {
		<-asked
		cancel()
	}()
	if got := s.Send(ctx, message(t, to)); got.OK() || got.HTTPStatus != 0 {
		t.Errorf("Send = %+v, want a failure without a status", got)
	}
}

// silence is a receiver that takes every request and never answers.
type silence struct{}

// RoundTrip implements http.RoundTripper.
func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A receiver that never answers costs 15 s.
func TestSend_EndsWithItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s := New(Options{})
		s.client.Transport = silence{}
		got := s.Send(ctx, message(t, "https://hooks.example.com/"))
		if got.Reason != webhook.ReasonTimeout || got.Latency != 15*time.Second {
			t.Errorf("Send = %+v, want a timeout after 15s", got)
		}
	})
}

// Two customers' URLs may have one host. Neither waits for the other's connection, nor does an idle one add up.
func TestSend_SharesNoConnection(t *testing.T) {
	t.Parallel()
	from := make(chan string, 2)
	to, s := receiver(t, func(_ http.ResponseWriter, r *http.Request) { from <- r.RemoteAddr })
	for range cap(from) {
		if got := s.Send(t.Context(), message(t, to)); !got.OK() {
			t.Fatalf("Send = %+v, want a success", got)
		}
	}
	if first, second := <-from, <-from; first == second {
		t.Errorf("both messages came through the connection from %s", first)
	}
}

// The environment must not be able to send deliveries through a proxy, which would resolve the names itself.
func TestSend_UsesNoProxy(t *testing.T) {
	proxied := make(chan struct{}, 1)
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { proxied <- struct{}{} }))
	t.Cleanup(proxy.Close)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	t.Setenv("ALL_PROXY", proxy.URL)
	to, s := receiver(t, func(http.ResponseWriter, *http.Request) {})
	if got := s.Send(t.Context(), message(t, to)); !got.OK() {
		t.Errorf("Send = %+v, want a success", got)
	}
	if transport, ok := s.client.Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Error("the transport has a proxy")
	}
	select {
	case <-proxied:
		t.Error("the request went through the proxy")
	default:
	}
}

func TestRetryAfter_ReadsADate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	if got := retryAfter("Mon, 23 Nov 2026 12:10:00 GMT", now); got != 10*time.Minute {
		t.Errorf("retryAfter = %v, want 10m", got)
	}
}
