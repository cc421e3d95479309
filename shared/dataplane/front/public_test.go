package front_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/nettest"
)

// startPublic starts a front with public paths.
func startPublic(t *testing.T, container http.HandlerFunc, change ...func(*front.Options)) *fixture {
	t.Helper()
	return start(t, serveContainer(t, container), func(o *front.Options) {
		o.PublicPaths = []string{"/hooks/", "/telegram", "/a.b/~c/"}
		for _, c := range change {
			c(o)
		}
	})
}

func none(*http.Request) {}

// publicTargets are targets of requests without a credential, and what the front must answer.
var publicTargets = map[string]int{
	"/hooks/":                         http.StatusOK,
	"/hooks/a/b":                      http.StatusOK,
	"/hooks/a/b?x=../../v1":           http.StatusOK,
	"/hooks/.hidden/..x":              http.StatusOK,
	"/telegram":                       http.StatusOK,
	"/telegram?x=%2e%2e":              http.StatusOK,
	"/a.b/~c/d":                       http.StatusOK,
	"/":                               http.StatusUnauthorized,
	"/hooks":                          http.StatusUnauthorized,
	"/hooksx":                         http.StatusUnauthorized,
	"/HOOKS/a":                        http.StatusUnauthorized,
	"/Hooks/a":                        http.StatusUnauthorized,
	"/telegram/":                      http.StatusUnauthorized,
	"/telegram/x":                     http.StatusUnauthorized,
	"/telegramx":                      http.StatusUnauthorized,
	"/hooks/%61":                      http.StatusUnauthorized,
	"/%68ooks/a":                      http.StatusUnauthorized,
	"/hooks%2fa":                      http.StatusUnauthorized,
	"/hooks/a%00":                     http.StatusUnauthorized,
	"/hooks/..":                       http.StatusUnauthorized,
	"/hooks/../admin":                 http.StatusUnauthorized,
	"/hooks/./a":                      http.StatusUnauthorized,
	"/hooks/a/..":                     http.StatusUnauthorized,
	"/hooks/%2e%2e/admin":             http.StatusUnauthorized,
	"/hooks/..%2fadmin":               http.StatusUnauthorized,
	"/hooks/..;/admin":                http.StatusUnauthorized,
	"/hooks;x/a":                      http.StatusUnauthorized,
	"/hooks/a;../x":                   http.StatusUnauthorized,
	"//hooks/a":                       http.StatusUnauthorized,
	"/hooks//a":                       http.StatusUnauthorized,
	"/hooks/a//":                      http.StatusUnauthorized,
	`/hooks/..\admin`:                 http.StatusUnauthorized,
	`/hooks\..\admin`:                 http.StatusUnauthorized,
	"/hooks/a#/../..":                 http.StatusUnauthorized,
	"/hooks/\xc3\xa4":                 http.StatusUnauthorized,
	"/./hooks/a":                      http.StatusUnauthorized,
	"/x/../hooks/a":                   http.StatusUnauthorized,
	"/hooks/../v1/models":             http.StatusBadRequest,
	"/hooks/..%2f..%2fv1/models":      http.StatusBadRequest,
	"/v1/hooks/a":                     http.StatusUnauthorized,
	"/v1/../hooks/a":                  http.StatusBadRequest,
	"/auth/check":                     http.StatusUnauthorized,
	"/logout":                         http.StatusUnauthorized,
	"http:/hooks/a":                   http.StatusBadRequest,
	"http://" + hostname + "/hooks/a": http.StatusBadRequest,
}

// raw sends a request with a target as it is, and returns the status.
func (f *fixture) raw(t *testing.T, target string) int {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the answer is read
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 203.0.113.7\r\nConnection: close\r\n\r\n",
		target, hostname)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%s: %v", target, err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

func TestPublicPaths_AreExactlyTheListed(t *testing.T) {
	t.Parallel()
	f := startPublic(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.RequestURI, "/hooks/") && !strings.HasPrefix(r.RequestURI, "/telegram") &&
			!strings.HasPrefix(r.RequestURI, "/a.b/~c/") {
			t.Errorf("the container got %s without a credential", r.RequestURI)
		}
	})
	for target, want := range publicTargets {
		if got := f.raw(t, target); got != want {
			t.Errorf("%s: status %d, want %d", target, got, want)
		}
	}
}

func FuzzPublicPaths(f *testing.F) {
	for target := range publicTargets {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		public, read := front.IsPublic([]string{"/hooks/"}, target)
		sent, _, _ := strings.Cut(target, "?")
		if sent = strings.TrimSuffix(strings.ToLower(sent), "/") + "/"; public &&
			(read != sent || !strings.HasPrefix(read, "/hooks/")) {
			t.Errorf("%q is public, and servers may read it as %q", target, read)
		}
	})
}

func TestPublicPaths_TellTheContainerThatAnyoneAsks(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := startPublic(t, echoRequest, func(o *front.Options) { o.KeysURL = i.url })
	session := f.open(t, i, claims(f.clock.now(), "1"))
	with := func(authorization string) func(*http.Request) { return header("Authorization", authorization) }
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	foreign := map[string]string{"For": "203.0.113.7", "X-Real-Ip": "203.0.113.7", "Host": hostname, "Proto": "https"}
	for _, c := range []struct {
		name              string
		prepare           func(*http.Request)
		way, user, passed string
	}{
		{name: "none", prepare: none, way: "public"},
		{name: "signature", prepare: with("HMAC-SHA256 x"), way: "public", passed: "HMAC-SHA256 x"},
		{name: "another's key", prepare: with("Bearer other"), way: "public", passed: "Bearer other"},
		{
			name: "another's password", prepare: with("Basic " + encode("a:b")), way: "public",
			passed: "Basic " + encode("a:b"),
		},
		{name: "password", prepare: basic, way: "basic", user: "admin"},
		{name: "session", prepare: session, way: "session", user: "user_1"},
		{name: "key", prepare: bearer, way: "public"},
		{name: "key without a scheme", prepare: with(apiKey), way: "public"},
		{name: "key as a token", prepare: with("Token  " + apiKey), way: "public"},
		{name: "key as a password", prepare: with("Basic " + encode("x:"+apiKey)), way: "public"},
		{name: "password as a key", prepare: with("Bearer " + password), way: "public"},
		{name: "password of another user", prepare: with("Basic " + encode("x:"+password)), way: "public"},
		{
			name: "two headers", way: "public",
			prepare: func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer other", "Bearer " + apiKey} },
		},
		{
			name: "password on another site's page", way: "public",
			prepare: func(r *http.Request) { basic(r); r.Header.Set("Sec-Fetch-Site", "cross-site") },
		},
		{
			name: "session on another agent's page", way: "public",
			prepare: func(r *http.Request) { session(r); r.Header.Set("Sec-Fetch-Site", "same-site") },
		},
	} {
		got := f.arrived(t, "/hooks/x", c.prepare, func(r *http.Request) {
			r.Header.Set("X-Forwarded-User", "root")
			r.Header["X_Forwarded_Auth"] = []string{"basic"}
			r.Header.Add("Cookie", "own=1; agent_session=x")
		}).Header
		want := map[string]string{"Auth": c.way}
		for key, value := range foreign {
			want[key] = value
		}
		if c.user != "" {
			want["User"], want["Preferred-Username"] = c.user, c.user
		}
		wantHeaders(t, c.name, got, want)
		if passed := strings.Join(got["Authorization"], "|"); passed != c.passed {
			t.Errorf("%s: Authorization %q arrived, want %q", c.name, passed, c.passed)
		}
		if cookies := got.Get("Cookie"); cookies != "own=1" {
			t.Errorf("%s: the cookies %q arrived, want own=1", c.name, cookies)
		}
	}
}

// TestPublicPaths_KeepTheCredentialFromImagesThatCheckThem covers the pages of other sites: the credential that a
// browser adds to their requests opens nothing.
func TestPublicPaths_KeepTheCredentialFromImagesThatCheckThem(t *testing.T) {
	t.Parallel()
	f := startPublic(t, echoRequest, func(o *front.Options) { o.ForwardCredentials = true })
	got := f.arrived(t, "/hooks/x", basic, header("Sec-Fetch-Site", "cross-site")).Header
	if got["Authorization"] != nil {
		t.Error("the password arrived with a request of another site's page")
	}
	if got := f.arrived(t, "/hooks/x", basic).Header.Get("Authorization"); got == "" {
		t.Error("the user's password did not arrive")
	}
}

// TestPublicPaths_ForeignCredentialsLockOutNoOne sends more of them than attempts may fail.
func TestPublicPaths_ForeignCredentialsLockOutNoOne(t *testing.T) {
	t.Parallel()
	f := startPublic(t, func(http.ResponseWriter, *http.Request) {})
	for range 40 {
		if got, _ := f.get(t, "/hooks/x", header("Authorization", "Bearer other")); got != http.StatusOK {
			t.Fatalf("status %d, want 200", got)
		}
	}
	if got, _ := f.get(t, "/", basic); got != http.StatusOK {
		t.Errorf("the password: status %d, want 200", got)
	}
}

func TestPublicPaths_MarkAnswersForTheRouter(t *testing.T) {
	t.Parallel()
	f := startPublic(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(dataplane.HeaderPublic, "forged")
	})
	for _, c := range []struct {
		path    string
		prepare func(*http.Request)
		want    string
	}{
		{path: "/hooks/x", prepare: none, want: "1"},
		{path: "/hooks/x", prepare: basic},
		{path: "/", prepare: basic},
	} {
		res := f.request(t, http.MethodGet, c.path, c.prepare)
		if got := strings.Join(res.Header.Values(dataplane.HeaderPublic), "|"); got != c.want {
			t.Errorf("%s: the mark %q, want %q", c.path, got, c.want)
		}
	}
}

func TestPublicPaths_BoundTheRequestsInASecond(t *testing.T) {
	t.Parallel()
	f := startPublic(t, func(http.ResponseWriter, *http.Request) {}, func(o *front.Options) {
		now := time.Now()
		o.Now = func() time.Time { return now }
	})
	statuses := map[int]int{}
	for n := range 110 {
		res := f.request(t, http.MethodGet, "/hooks/x", from(fmt.Sprintf("198.51.100.%d", n)))
		statuses[res.StatusCode]++
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		if retry := res.Header.Get("Retry-After"); (retry != "") != (res.StatusCode == http.StatusTooManyRequests) {
			t.Errorf("status %d with Retry-After %q", res.StatusCode, retry)
		}
	}
	if statuses[http.StatusOK] != 100 || statuses[http.StatusTooManyRequests] != 10 {
		t.Errorf("%v, want 100 times 200 and 10 times 429", statuses)
	}
	if got, _ := f.get(t, "/hooks/x", basic); got != http.StatusOK {
		t.Errorf("with the password: status %d, want 200", got)
	}
}

// TestPublicPaths_BoundConcurrentRequests holds requests in the container, and looks at what is refused then.
func TestPublicPaths_BoundConcurrentRequests(t *testing.T) {
	t.Parallel()
	release, arrived := make(chan struct{}), make(chan struct{}, 256)
	f := startPublic(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hooks/hold" {
			flush(w)
			arrived <- struct{}{}
			<-release
		}
	})
	defer close(release)
	hold := func(address string, want int) {
		t.Helper()
		for n := range want + 1 {
			res := f.request(t, http.MethodGet, "/hooks/hold", from(address))
			if ok := res.StatusCode == http.StatusOK; ok != (n < want) {
				t.Fatalf("request %d of %s: status %d, want %d to pass", n+1, address, res.StatusCode, want)
			}
			if n < want {
				<-arrived
			}
		}
	}
	hold("198.51.100.1", 32)
	// Each further address holds as many as it leaves free, so that a few do not take all.
	for n, most := range []int{16, 8, 4, 2, 1} {
		if got, _ := f.get(t, "/hooks/x", from("198.51.100.99")); got != http.StatusOK {
			t.Errorf("a client next to %d that hold what they can: status %d, want 200", n+1, got)
		}
		hold(fmt.Sprintf("198.51.100.%d", n+2), most)
	}
	hold("198.51.100.7", 1)
	if got, _ := f.get(t, "/hooks/x", from("198.51.100.99")); got != http.StatusTooManyRequests {
		t.Errorf("a further client: status %d, want 429", got)
	}
	if got, _ := f.get(t, "/", basic); got != http.StatusOK {
		t.Errorf("a user: status %d, want 200", got)
	}
}

func TestPublicPaths_OpenWebSockets(t *testing.T) {
	t.Parallel()
	f := startPublic(t, echoSocket)
	conn, in, res := f.upgrade(t, "/hooks/socket", none)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", res.StatusCode)
	}
	fmt.Fprintln(conn, "token")
	if got, err := in.ReadString('\n'); got != "token\n" {
		t.Errorf("echo %q, %v", got, err)
	}
	if _, _, res := f.upgrade(t, "/socket", none); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("another path: status %d, want 401", res.StatusCode)
	}
}

// TestWebSockets_OpenWithTheAPIKey covers programs, which have no other credential.
func TestWebSockets_OpenWithTheAPIKey(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Forwarded-Auth") != "api" && r.Header.Get("X-Forwarded-Auth") != "basic":
			t.Errorf("X-Forwarded-Auth = %q", r.Header.Get("X-Forwarded-Auth"))
		case r.URL.Path == "/page":
			_, _ = io.WriteString(w, "the dashboard")
		default:
			echoSocket(w, r)
		}
	}), nil)
	for _, c := range []struct {
		name, path string
		prepare    func(*http.Request)
		want       int
	}{
		{name: "key", path: "/", prepare: bearer, want: http.StatusSwitchingProtocols},
		{name: "key, API", path: "/v1/realtime", prepare: bearer, want: http.StatusSwitchingProtocols},
		{name: "password", path: "/", prepare: basic, want: http.StatusSwitchingProtocols},
		{name: "none", path: "/", prepare: none, want: http.StatusUnauthorized},
		{name: "wrong key", path: "/", prepare: header("Authorization", "Bearer x"), want: http.StatusUnauthorized},
		{name: "password, API", path: "/v1/realtime", prepare: basic, want: http.StatusUnauthorized},
		{name: "key, a page instead", path: "/page", prepare: bearer, want: http.StatusForbidden},
		{name: "password, a page instead", path: "/page", prepare: basic, want: http.StatusOK},
	} {
		if _, _, res := f.upgrade(t, c.path, c.prepare); res.StatusCode != c.want {
			t.Errorf("%s: status %d, want %d", c.name, res.StatusCode, c.want)
		}
	}
	for name, prepare := range map[string]func(*http.Request){
		"no upgrade": func(*http.Request) {},
		"another upgrade": func(r *http.Request) {
			r.Header.Set("Upgrade", "h2c")
			r.Header.Set("Connection", "Upgrade")
		},
		"a header alone": func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
	} {
		if got, _ := f.get(t, "/page", bearer, prepare); got != http.StatusUnauthorized {
			t.Errorf("%s with the key: status %d, want 401", name, got)
		}
	}
}

func TestNew_RefusesPublicPathsOfTheFront(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/", "/v1/", "/V1/x", "/auth/", "/handoff", "/health/x", "/logout", "hooks/", "/a/../v1/",
	} {
		_, err := front.New(front.Options{
			Port: 3000, PublicPaths: []string{path},
			Credentials: front.Credentials{Username: user, Password: password, APIKey: apiKey},
		})
		if err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}

// TestPublicPaths_BoundTheTimeOfARequest runs in virtual time.
func TestPublicPaths_BoundTheTimeOfARequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		released := make(chan struct{})
		defer close(released)
		container := nettest.Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
		l := nettest.Listen()
		f := startOn(t, l, l.Dial, 1, func(o *front.Options) { o.PublicPaths, o.HealthPath = []string{"/hooks/"}, "/" })
		f.front.DialContainer(container.DialContext)
		began := time.Now()
		got, body := f.get(t, "/hooks/x")
		if took := time.Since(began); got != http.StatusGatewayTimeout || took != 2*time.Minute {
			t.Errorf("status %d after %s, want 504 after 2 minutes: %s", got, took, body)
		}
	})
}
