package login_test

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(renewingProcess); path != "" {
		if err := renew(context.Background(), path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testtier.SilenceLogs()
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for what must happen, on a busy machine.
const patience = 2 * time.Minute

// world is an API that describes itself, its identity provider, and a user.
type world struct {
	t      *testing.T
	issuer *issuer.Issuer
	api    *httptest.Server
	http   *http.Client
	store  profile.Store
	out    *output
}

// newWorld starts an API with the real route, and the local issuer.
func newWorld(t *testing.T, options issuer.Options) *world {
	t.Helper()
	i, err := issuer.Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	w := &world{
		t: t, issuer: i, http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, out: &output{},
		store: profile.Store{Path: filepath.Join(t.TempDir(), "config.json")},
	}
	w.api = newAPI(t, system.SignIn{
		Issuer: i.URL(), ClientID: issuer.CLIClientID, Scopes: "openid profile email offline_access",
	})
	return w
}

// newAPI serves what an API says about its identity provider. An empty BaseURL is that of the server.
func newAPI(t *testing.T, s system.SignIn) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	if s.BaseURL == "" {
		s.BaseURL = "http://" + server.Listener.Addr().String()
	}
	var served []function.Served
	for _, r := range system.ProtectedResources(s) {
		served = append(served, r.Served(function.Guard{}))
	}
	server.Config.Handler = function.Mux(served)
	server.Start()
	t.Cleanup(server.Close)
	return server
}

// flow returns a sign-in whose browser is open.
func (w *world) flow(open func(address string) error) login.Flow {
	return login.Flow{HTTP: w.http, Out: w.out, Open: open, Timeout: patience}
}

// signIn signs the user in and stores the profile "default".
func (w *world) signIn() profile.Profile {
	w.t.Helper()
	b := w.newBrowser()
	p, err := w.flow(b.signIn).Browser(w.t.Context(), w.api.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	b.wait()
	if err := w.store.Save(w.t.Context(), "default", p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// browser is the user's browser. Its methods are openers of addresses.
type browser struct {
	w    *world
	http *http.Client
	// change changes the address to which the identity provider sends the browser.
	change func(back url.Values)
	choice url.Values

	done chan struct{}
	page string // the last page
	code int
}

func (w *world) newBrowser() *browser {
	w.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return &browser{
		w: w, done: make(chan struct{}), change: func(url.Values) {},
		choice: url.Values{"subject": {"user_1"}, "organization": {"org_1"}, "role": {"admin"}},
		http: &http.Client{
			Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// wait waits until the browser shows the last page.
func (b *browser) wait() {
	b.w.t.Helper()
	select {
	case <-b.done:
	case <-time.After(patience):
		b.w.t.Fatal("the browser is still loading")
	}
}

// reply is a page, or the address that the browser must go to.
type reply struct {
	status         int
	location, page string
}

// send sends a request.
func (b *browser) send(method, address string, form url.Values) reply {
	req, err := http.NewRequestWithContext(context.Background(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		b.w.t.Error(err)
		return reply{}
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := b.http.Do(req)
	if err != nil {
		return reply{page: err.Error()}
	}
	defer res.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.w.t.Error(err)
	}
	return reply{status: res.StatusCode, location: res.Header.Get("Location"), page: string(body)}
}

// signIn opens the sign-in page, chooses the user, and follows the way back.
func (b *browser) signIn(address string) error {
	defer close(b.done)
	if r := b.send(http.MethodGet, address, nil); r.status != http.StatusOK {
		b.w.t.Errorf("the sign-in page has the status %d: %s", r.status, r.page)
		return nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	form := u.Query()
	for name, values := range b.choice {
		form[name] = values
	}
	b.comeBack(b.send(http.MethodPost, b.w.issuer.URL()+"/authorize", form))
	return nil
}

// cancel opens the sign-in page and follows its link to cancel.
func (b *browser) cancel(address string) error {
	defer close(b.done)
	page := b.send(http.MethodGet, address, nil).page
	link := regexp.MustCompile(`href="(http://127[^"]*access_denied[^"]*)"`).FindStringSubmatch(page)
	if link == nil {
		b.w.t.Errorf("the sign-in page has no link to cancel: %s", page)
		return nil
	}
	last := b.send(http.MethodGet, html.UnescapeString(link[1]), nil)
	b.page, b.code = last.page, last.status
	return nil
}

// comeBack follows the identity provider's answer to the listener.
func (b *browser) comeBack(answer reply) {
	back, err := url.Parse(answer.location)
	if err != nil || answer.status != http.StatusSeeOther {
		b.w.t.Errorf("the identity provider answered %d: %s", answer.status, answer.page)
		return
	}
	query := back.Query()
	b.change(query)
	back.RawQuery = query.Encode()
	last := b.send(http.MethodGet, back.String(), nil)
	b.page, b.code = last.page, last.status
}

// output is what the user reads.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
