package issuer_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"agents.example/controlplane/emulators/issuer"
)

const redirectURI = "http://127.0.0.1:8080/console"

// clock is a clock that tests advance.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// browser is a browser that follows no redirects and keeps cookies.
type browser struct {
	t      *testing.T
	issuer *issuer.Issuer
	client *http.Client
}

// reply is a response with its whole body.
type reply struct {
	status int
	header http.Header
	body   string
}

func newBrowser(t *testing.T, i *issuer.Issuer) browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{t, i, &http.Client{
		Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// send sends a request. Form is a POST's form; nil makes a GET. Header has names and values in turn.
func (b browser) send(path string, form url.Values, header ...string) reply {
	b.t.Helper()
	method, body := http.MethodGet, io.Reader(http.NoBody)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	address := path
	if strings.HasPrefix(path, "/") {
		address = b.issuer.URL() + path
	}
	request, err := http.NewRequestWithContext(b.t.Context(), method, address, body)
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for n := 0; n < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	return b.do(request)
}

func (b browser) do(request *http.Request) reply {
	b.t.Helper()
	response, err := b.client.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header, string(text)}
}

// answer returns the parameters that a reply redirects to the client with.
func (b browser) answer(r reply) url.Values {
	b.t.Helper()
	location, err := url.Parse(r.header.Get("Location"))
	if err != nil || r.status != http.StatusSeeOther || !strings.HasPrefix(location.String(), redirectURI+"?") {
		b.t.Fatalf("status %d, location %q: %s; want a redirect to %s", r.status, location, r.body, redirectURI)
	}
	return location.Query()
}

// verifierOf is the PKCE verifier of request.
const verifierOf = "verifier-verifier-verifier-verifier-verifier"

// request returns the parameters of an authorization request, with changes. An empty change removes a parameter.
func request(changes map[string]string) url.Values {
	values := url.Values{
		"client_id": {"console"}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "state": {"state-1"},
		"nonce": {"nonce-1"}, "scope": {"openid profile email offline_access"},
		"code_challenge":        {oauth2.S256ChallengeFromVerifier(verifierOf)},
		"code_challenge_method": {"S256"},
	}
	for name, value := range changes {
		values.Set(name, value)
		if value == "" {
			values.Del(name)
		}
	}
	return values
}

// choose sends the sign-in page's form and returns the code.
func (b browser) choose(session issuer.Session) string {
	b.t.Helper()
	form := request(map[string]string{
		"subject": session.Subject, "organization": session.Organization, "role": session.Role,
	})
	code := b.answer(b.send("/authorize", form)).Get("code")
	if code == "" {
		b.t.Fatal("the answer has no code")
	}
	return code
}

// exchange sends a code to the token endpoint.
func (b browser) exchange(code string, changes map[string]string) reply {
	b.t.Helper()
	form := url.Values{
		"grant_type": {"authorization_code"}, "client_id": {"console"}, "code": {code},
		"redirect_uri": {redirectURI}, "code_verifier": {verifierOf},
	}
	for name, value := range changes {
		form.Set(name, value)
	}
	return b.send("/token", form)
}

func (b browser) refresh(token string) reply {
	b.t.Helper()
	return b.send("/token", url.Values{
		"grant_type": {"refresh_token"}, "client_id": {"console"}, "refresh_token": {token},
	})
}
