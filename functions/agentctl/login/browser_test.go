package login_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/functions/system"
)

func TestBrowser_SignsTheUserIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	b := w.newBrowser()
	p, err := w.flow(b.signIn).Browser(t.Context(), w.api.URL+"/")
	if err != nil {
		t.Fatal(err)
	}
	b.wait()
	s := p.Session
	if p.BaseURL != w.api.URL || p.Organization != "org_1" || s.Subject != "user_1" ||
		s.Email != "user_1@example.com" || s.Issuer != w.issuer.URL() || s.ClientID != issuer.CLIClientID {
		t.Errorf("profile = %+v with session %+v, want that of user_1 in org_1", p, s)
	}
	if strings.Count(s.Access.Reveal(), ".") != 2 || s.Refresh == "" || !s.Expires.After(time.Now()) {
		t.Errorf("session %+v expires at %s, want a JWT, a refresh token and a future end", s, s.Expires)
	}
	if b.code != http.StatusOK || !strings.Contains(b.page, "You can close this window") {
		t.Errorf("the browser shows %d %s, want that the window can be closed", b.code, b.page)
	}
	printed := w.out.String()
	if !strings.Contains(printed, w.issuer.URL()+"/authorize?") {
		t.Errorf("printed %q, want the address to open", printed)
	}
	for _, secret := range []string{s.Access.Reveal(), s.Refresh.Reveal()} {
		if strings.Contains(printed+b.page, secret) {
			t.Error("the terminal or the browser shows a token")
		}
	}
}

// TestBrowser_WorksWithoutOpeningOne is the way over ssh: the user opens the printed address.
func TestBrowser_WorksWithoutOpeningOne(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(string) error{
		"no opener": nil, "failing opener": func(string) error { return errors.New("no display") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, issuer.Options{})
			b := w.newBrowser()
			printed := make(chan string, 10)
			f := w.flow(open)
			f.Out = writerFunc(func(text []byte) (int, error) {
				if found := regexp.MustCompile(`http\S*/authorize\S*`).Find(text); found != nil {
					printed <- string(found)
				}
				return len(text), nil
			})
			go func() { _ = b.signIn(<-printed) }()
			if _, err := f.Browser(t.Context(), w.api.URL); err != nil {
				t.Error(err)
			}
			b.wait()
		})
	}
}

type writerFunc func(text []byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// TestBrowser_RefusesAnswersThatAreNotItsOwn changes what the identity provider sends back.
func TestBrowser_RefusesAnswersThatAreNotItsOwn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(url.Values)
		want   string
	}{
		"another issuer": {
			change: func(v url.Values) { v.Set("iss", "https://evil.example") },
			want:   "another identity provider answered",
		},
		"no issuer":    {change: func(v url.Values) { v.Del("iss") }, want: "another identity provider answered"},
		"no code":      {change: func(v url.Values) { v.Del("code") }, want: "has no code"},
		"another code": {change: func(v url.Values) { v.Set("code", "guessed") }, want: "invalid_grant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, issuer.Options{})
			b := w.newBrowser()
			b.change = test.change
			_, err := w.flow(b.signIn).Browser(t.Context(), w.api.URL)
			b.wait()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
			if b.code != http.StatusBadRequest || !strings.Contains(b.page, "The sign-in failed") {
				t.Errorf("the browser shows %d %s, want the failure", b.code, b.page)
			}
		})
	}
}

// TestBrowser_IgnoresAnotherState: any web page can call the listener, and must not end the sign-in.
func TestBrowser_IgnoresAnotherState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	b := w.newBrowser()
	attack := func(address string) error {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		back := u.Query().Get("redirect_uri")
		for _, query := range []string{"", "?state=guessed&error=access_denied", "?state=guessed&code=stolen"} {
			if r := b.send(http.MethodGet, back+query, nil); r.status != http.StatusBadRequest {
				t.Errorf("%q: the listener answered %d: %s; want 400", query, r.status, r.page)
			}
		}
		host := strings.Replace(back, "127.0.0.1", "localhost", 1) // stands for a name that leads to this machine
		if r := b.send(http.MethodGet, host, nil); r.status != http.StatusMisdirectedRequest {
			t.Errorf("another host name: status %d, want 421", r.status)
		}
		return b.signIn(address)
	}
	if _, err := w.flow(attack).Browser(t.Context(), w.api.URL); err != nil {
		t.Errorf("the sign-in failed after foreign visits: %v", err)
	}
	b.wait()
}

func TestBrowser_SaysThatTheUserCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	b := w.newBrowser()
	_, err := w.flow(b.cancel).Browser(t.Context(), w.api.URL)
	b.wait()
	if err == nil || !strings.Contains(err.Error(), "canceled") || b.code != http.StatusBadRequest {
		t.Errorf("error %v, page %d %s; want both to say that the sign-in was canceled", err, b.code, b.page)
	}
}

func TestBrowser_GivesUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	f := w.flow(nil)
	f.Timeout = time.Millisecond
	_, err := f.Browser(t.Context(), w.api.URL)
	if err == nil || !strings.Contains(err.Error(), "not finished in time") {
		t.Errorf("after the time limit: %v, want that the sign-in was not finished in time", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	interrupt := func(string) error {
		cancel()
		return nil
	}
	if _, err := w.flow(interrupt).Browser(ctx, w.api.URL); !errors.Is(err, context.Canceled) {
		t.Errorf("after an interrupt: %v, want context.Canceled", err)
	}
}

// describeProvider serves what an identity provider says about itself, where {} stands for its own address.
func describeProvider(t *testing.T, body string) (address string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	address = "http://" + server.Listener.Addr().String()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(strings.ReplaceAll(body, "{}", address)))
	})
	server.Start()
	t.Cleanup(server.Close)
	return address
}

// TestDiscovery_TrustsOnlyWhatFits changes what the API and the identity provider say about themselves.
func TestDiscovery_TrustsOnlyWhatFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	const scopes = "openid"
	issuerURL, client := w.issuer.URL(), issuer.CLIClientID
	provider := func(body string) string { return describeProvider(t, body) }
	for name, test := range map[string]struct {
		given system.SignIn
		want  string
	}{
		"no client":      {system.SignIn{Issuer: issuerURL}, login.ErrNoSignIn.Error()},
		"another API":    {system.SignIn{BaseURL: "https://evil.example", Issuer: issuerURL}, "names itself"},
		"http issuer":    {system.SignIn{Issuer: "http://issuer.example", ClientID: client}, "must use https"},
		"unknown client": {system.SignIn{Issuer: w.api.URL, ClientID: client}, "answered with the status 404"},
		"another issuer": {system.SignIn{Issuer: issuerURL + "/", ClientID: client}, "names itself"},
		"http endpoint": {
			system.SignIn{Issuer: provider(`{"issuer": "{}", "token_endpoint": "http://evil.example/token"}`)},
			"token_endpoint must use https",
		},
		"no PKCE": {
			system.SignIn{Issuer: provider(`{"issuer": "{}", "code_challenge_methods_supported": ["plain"]}`)}, "PKCE",
		},
		"no token endpoint": {system.SignIn{Issuer: provider(`{"issuer": "{}"}`)}, "no token endpoint"},
		"no sign-in page": {
			system.SignIn{Issuer: provider(`{"issuer": "{}", "token_endpoint": "{}/t"}`)}, "no sign-in page",
		},
		"not JSON": {system.SignIn{Issuer: provider("<html>")}, "not the expected document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.given.Scopes = scopes
			if name != "no client" {
				test.given.ClientID = client
			}
			api := newAPI(t, test.given)
			_, err := w.flow(nil).Browser(t.Context(), api.URL)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
	for base, want := range map[string]string{
		"http://api.example.com": "must use https", "api.example.com": "must look like",
		w.issuer.URL(): login.ErrNoSignIn.Error(),
	} {
		if _, err := w.flow(nil).Browser(t.Context(), base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", base, err, want)
		}
	}
}
