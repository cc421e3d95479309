package front_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agents.example/controlplane/shared/nettest"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/goleak"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

const (
	hostname = "research-abc.local.agents.test"
	user     = "admin"
	password = "canary-password"
	apiKey   = "ak_canary-key"
)

// clock is a clock that tests move.
type clock struct{ offset atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// fixture is a front that serves on TCP, with a container behind it.
type fixture struct {
	front *front.Front
	url   string
	addr  string
	clock *clock
	// end ends the front, as SIGTERM does, and returns what Serve returned.
	end func() error
	// client has separate connections, which end with the test.
	client *http.Client
}

func portOf(t *testing.T, rawURL string) int {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// refusingPort returns a port that refuses connections.
func refusingPort(t *testing.T) int { t.Helper(); return int(nettest.Refusing(t).Port()) }

// serveContainer runs a container.
func serveContainer(t *testing.T, h http.HandlerFunc) (port int) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return portOf(t, s.URL)
}

// start starts a front for a container on a port.
func start(t *testing.T, port int, change func(*front.Options)) *fixture {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	f := startOn(t, l, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}, port, change)
	f.addr = addr
	return f
}

// startOn is start for another listener and its connections. Only start sets addr. The front is prepared before it
// serves.
func startOn(
	t *testing.T, l net.Listener, dial func(context.Context) (net.Conn, error), port int, change func(*front.Options),
	prepare ...func(*front.Front),
) *fixture {
	t.Helper()
	f := &fixture{clock: new(clock)}
	o := front.Options{
		Hostname: hostname, Port: port, Now: f.clock.now,
		DrainTime:   time.Nanosecond, // tests of the end have another
		Credentials: front.Credentials{Username: user, Password: password, APIKey: apiKey},
	}
	if change != nil {
		change(&o)
	}
	var err error
	if f.front, err = front.New(o); err != nil {
		t.Fatal(err)
	}
	for _, p := range prepare {
		p(f.front)
	}
	f.url = "http://" + hostname
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	var served error
	go func() {
		defer close(ended)
		served = f.front.Serve(ctx, l)
	}()
	f.end = func() error { cancel(); <-ended; return served }
	transport := &http.Transport{
		MaxIdleConnsPerHost: 64,
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
	}
	f.client = &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = f.end() // tests of the end look at its error
		f.front.Close()
	})
	return f
}

// request makes a request to the front, as the router sends it for a client on the internet.
func (f *fixture) request(t *testing.T, method, path string, prepare ...func(*http.Request)) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, f.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = hostname
	req.Header.Set("X-Forwarded-For", "203.0.113.7")
	req.Header.Set("X-Forwarded-Proto", "https")
	for _, p := range prepare {
		p(req)
	}
	res, err := f.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// get returns the status and the body of a request.
func (f *fixture) get(t *testing.T, path string, prepare ...func(*http.Request)) (status int, body string) {
	t.Helper()
	res := f.request(t, http.MethodGet, path, prepare...)
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

func basic(r *http.Request)  { r.SetBasicAuth(user, password) }
func bearer(r *http.Request) { r.Header.Set("Authorization", "Bearer "+apiKey) }

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func from(address string) func(*http.Request) { return header("X-Forwarded-For", address) }

// issuer signs links as the control plane does.
type issuer struct {
	url     string
	key     jose.JSONWebKey
	fetches atomic.Int32
	from    atomic.Value // the address of the last client
	down    atomic.Bool
	// asked counts the questions about sessions.
	asked atomic.Int32

	mu        sync.Mutex
	published jose.JSONWebKeySet
	// sessions has the answers about sessions by their links; those of others go on.
	sessions map[string]func(w http.ResponseWriter)
}

func newKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"}
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.rotate(newKey(t, "first"))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		host, _, _ := net.SplitHostPort(req.RemoteAddr)
		i.from.Store(host)
		if req.URL.Path == dataplane.PathIntrospect {
			i.answerSession(w, req)
			return
		}
		i.fetches.Add(1)
		if i.down.Load() {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(i.published)
	}))
	t.Cleanup(s.Close)
	i.url = s.URL + dataplane.PathKeys
	return i
}

func (i *issuer) answerSession(w http.ResponseWriter, req *http.Request) {
	i.asked.Add(1)
	var question struct{ Token string }
	if err := json.NewDecoder(req.Body).Decode(&question); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	i.mu.Lock()
	answer := i.sessions[question.Token]
	i.mu.Unlock()
	if answer == nil {
		answer = answerJSON(`{"active": true}`)
	}
	answer(w)
}

func answerJSON(text string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { _, _ = io.WriteString(w, text) }
}

func answerStatus(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}

// answerAbout sets the answer about the session of a link.
func (i *issuer) answerAbout(link string, answer func(w http.ResponseWriter)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.sessions = map[string]func(http.ResponseWriter){strings.TrimPrefix(link, "/handoff?token="): answer}
}

// rotate signs with a new key, and publishes it only.
func (i *issuer) rotate(key jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key, i.published = key, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}}
}

func claims(now time.Time, id string) map[string]any {
	return map[string]any{
		"iss": "agent-control-plane", "aud": hostname, "sub": "user_1", "jti": id, "iat": now.Unix(),
		"exp": now.Add(time.Minute).Unix(),
	}
}

func sign(t *testing.T, algorithm jose.SignatureAlgorithm, key jose.JSONWebKey, claims any) string {
	t.Helper()
	return signAs(t, "JWT", algorithm, key, claims)
}

// signAs is sign for tokens of another type; empty for none.
func signAs(
	t *testing.T, kind jose.ContentType, algorithm jose.SignatureAlgorithm, key jose.JSONWebKey, claims any,
) string {
	t.Helper()
	var options jose.SignerOptions
	if kind != "" {
		options.WithType(kind)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, &options)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// link returns the path of a valid link.
func (i *issuer) link(t *testing.T, now time.Time, id string) string {
	t.Helper()
	return "/handoff?token=" + sign(t, jose.ES256, i.key, claims(now, id))
}
