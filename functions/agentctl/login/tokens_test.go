package login_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions/agentctl/login"
	"agents.example/controlplane/functions/agentctl/profile"
	"agents.example/controlplane/shared/client"
)

// counter counts requests.
type counter struct {
	requests atomic.Int64
	before   func()
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	if c.before != nil {
		c.before()
	}
	return c.next.RoundTrip(r)
}

// tokens returns the source of a stored profile, as each process has one, and the count of its requests.
func (w *world) tokens(store profile.Store) (client.Refresher, *counter) {
	w.t.Helper()
	r, err := store.Resolve(func(string) (string, bool) { return "", false }, profile.Flags{})
	if err != nil {
		w.t.Fatal(err)
	}
	c := &counter{next: w.http.Transport}
	source, err := login.Tokens(store, r, &http.Client{Transport: c})
	if err != nil {
		w.t.Fatal(err)
	}
	return source.(client.Refresher), c
}

func (w *world) token(source client.TokenSource) string {
	w.t.Helper()
	token, err := source.Token(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return token
}

func (w *world) stored() profile.Session {
	w.t.Helper()
	f, err := w.store.Load()
	if err != nil {
		w.t.Fatal(err)
	}
	return *f.Profiles["default"].Session
}

func TestTokens_UsesWhatIsValid(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	signedIn := w.signIn()
	source, c := w.tokens(w.store)
	if got := w.token(source); got != signedIn.Session.Access.Reveal() || c.requests.Load() != 0 {
		t.Errorf("a valid token was replaced with %d requests", c.requests.Load())
	}
	key, err := login.Tokens(w.store, profile.Resolved{Key: "so_1"}, nil)
	if err != nil || w.token(key) != "so_1" {
		t.Errorf("the source of a key: %v, want the key", err)
	}
	if _, err := login.Tokens(w.store, profile.Resolved{}, nil); !errors.Is(err, profile.ErrNotLoggedIn) {
		t.Errorf("without a credential: %v, want ErrNotLoggedIn", err)
	}
}

// TestTokens_RenewOnce: goroutines and processes that all have the same refused token share one renewal.
func TestTokens_RenewOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	refused := w.signIn().Session.Access.Reveal()
	first, requestsOfFirst := w.tokens(w.store)
	second, requestsOfSecond := w.tokens(w.store)
	var all sync.WaitGroup
	for range 10 {
		for _, source := range []client.Refresher{first, second} {
			all.Go(func() {
				if err := source.Refresh(t.Context(), refused); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	if got := requestsOfFirst.requests.Load() + requestsOfSecond.requests.Load(); got != 1 {
		t.Errorf("%d renewals, want 1", got)
	}
	if a, b := w.token(first), w.token(second); a != b || a == refused || a != w.stored().Access.Reveal() {
		t.Error("the sources have different tokens, or the refused one; want the stored one")
	}
}

// renewingProcess makes the test binary a process that renews the session in the file of its value again and again.
const renewingProcess = "LOGIN_TEST_RENEW"

// renewals is how often each process renews.
const renewals = 10

// renew gets tokens whose lifetime is so short that each call renews them.
func renew(ctx context.Context, path string) error {
	store := profile.Store{Path: path}
	r, err := store.Resolve(func(string) (string, bool) { return "", false }, profile.Flags{})
	if err != nil {
		return err
	}
	source, err := login.Tokens(store, r, nil)
	if err != nil {
		return err
	}
	for range renewals {
		if _, err := source.Token(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestTokens_SurviveConcurrentProcesses: the issuer ends the session if a refresh token is used twice.
func TestTokens_SurviveConcurrentProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{AccessTTL: 5 * time.Second})
	w.signIn()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			cmd := exec.CommandContext(t.Context(), executable)
			cmd.Env = append(os.Environ(), renewingProcess+"="+w.store.Path)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("a process lost the session: %v: %s", err, out)
			}
		})
	}
	all.Wait()
	source, _ := w.tokens(w.store)
	w.token(source)
}

func TestTokens_SayThatTheSessionEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{AccessTTL: 5 * time.Second})
	w.signIn()
	w.issuer.EndSessions()
	source, c := w.tokens(w.store)
	for range 2 {
		_, err := source.Token(t.Context())
		if !errors.Is(err, login.ErrSessionEnded) || err.Error() != "your session has ended. Run: agentctl login" {
			t.Errorf("error %v, want ErrSessionEnded", err)
		}
	}
	if err := source.Refresh(t.Context(), "refused"); !errors.Is(err, login.ErrSessionEnded) {
		t.Errorf("Refresh: %v, want ErrSessionEnded", err)
	}
	if got := c.requests.Load(); got != 1 {
		t.Errorf("%d requests, want 1: the end is known after it", got)
	}
	if s := w.stored(); s.Access != "" || s.Refresh != "" || s.Subject != "user_1" {
		t.Errorf("stored session %+v, want that of user_1 without tokens", s)
	}
	w.signIn()
	source, _ = w.tokens(w.store)
	w.token(source)
}

func TestTokens_SurviveAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{AccessTTL: 5 * time.Second})
	before := w.signIn().Session
	source, _ := w.tokens(w.store)
	w.issuer.Pause()
	_, err := source.Token(t.Context())
	var unavailable *client.TokenUnavailableError
	if !errors.As(err, &unavailable) || errors.Is(err, login.ErrSessionEnded) ||
		!strings.Contains(err.Error(), "status 503") ||
		strings.Contains(err.Error(), before.Refresh.Reveal()) {
		t.Errorf("during an outage: %v, want the status, and that a later call may succeed", err)
	}
	if got := w.stored(); got.Refresh != before.Refresh {
		t.Error("the outage changed the stored session")
	}
	w.issuer.Resume()
	w.token(source)
	if cut, err := w.cutOff().Token(t.Context()); !errors.As(err, &unavailable) {
		t.Errorf("without a network: %q, %v; want that a later call may succeed", cut, err)
	}
	w.token(source)
}

// cutOff returns the source of the stored profile in a network without a way to the identity provider.
func (w *world) cutOff() client.TokenSource {
	w.t.Helper()
	r, err := w.store.Resolve(func(string) (string, bool) { return "", false }, profile.Flags{})
	if err != nil {
		w.t.Fatal(err)
	}
	source, err := login.Tokens(w.store, r, &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, syscall.ENETUNREACH },
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	return source
}

// TestTokens_KeepTheSuccessor: the refresh token is spent when a command is interrupted or its file cannot be written.
func TestTokens_KeepTheSuccessor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{AccessTTL: 5 * time.Second})
	before := *w.signIn().Session
	source, c := w.tokens(w.store)
	ctx, interrupt := context.WithCancel(t.Context())
	c.before = interrupt
	if _, err := source.Token(ctx); err != nil {
		t.Errorf("interrupted during the renewal: %v, want its token", err)
	}
	if got := w.stored(); got.Refresh == before.Refresh {
		t.Error("the stored refresh token is the spent one")
	}
	if _, err := source.Token(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted before the renewal: %v, want context.Canceled", err)
	}

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stored := w.stored()
	c.requests.Store(0)
	readOnly, err := login.Tokens(profile.Store{Path: filepath.Join(file, "config.json")},
		profile.Resolved{Name: "default", Session: &stored}, &http.Client{Transport: c})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readOnly.Token(t.Context()); err == nil || c.requests.Load() != 0 {
		t.Errorf("without a place for the successor: error %v, %d requests; want an error and none", err,
			c.requests.Load())
	}
	w.token(source)
}

// TestTokens_NeverBelongToAnotherAPI: a login to another API, user or organization replaces the profile while a command
// runs.
func TestTokens_NeverBelongToAnotherAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	began := w.signIn()
	for name, change := range map[string]func(p *profile.Profile){
		"API":          func(p *profile.Profile) { p.BaseURL = "https://b.example.com" },
		"organization": func(p *profile.Profile) { p.Organization = "org_2" },
		"issuer":       func(p *profile.Profile) { p.Session.Issuer = "https://issuer.example.com" },
		"client":       func(p *profile.Profile) { p.Session.ClientID = "other" },
		"user":         func(p *profile.Profile) { p.Session.Subject = "user_2" },
		"key":          func(p *profile.Profile) { p.Session, p.Key = nil, "so_other" },
	} {
		t.Run(name, func(t *testing.T) {
			store := profile.Store{Path: filepath.Join(t.TempDir(), "config.json")}
			if err := store.Save(t.Context(), "default", began); err != nil {
				t.Fatal(err)
			}
			source, c := w.tokens(store)
			old := w.token(source)
			other, session := began, *began.Session
			session.Access = "token-of-b"
			other.Session = &session
			change(&other)
			if err := store.Save(t.Context(), "default", other); err != nil {
				t.Fatal(err)
			}
			if err := source.Refresh(t.Context(), old); !errors.Is(err, login.ErrProfileChanged) {
				t.Errorf("Refresh: %v, want ErrProfileChanged", err)
			}
			if got, err := source.Token(t.Context()); got == "token-of-b" || c.requests.Load() != 0 {
				t.Errorf("the source returns another profile's token (%v), with %d requests", err, c.requests.Load())
			}
			if f, err := store.Load(); err != nil || f.Profiles["default"].Organization != other.Organization {
				t.Errorf("the stored profile was changed: %v", err)
			}
		})
	}
}

func TestLogout_EndsTheSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{AccessTTL: 5 * time.Second})
	signedIn := w.signIn()
	source, _ := w.tokens(w.store)
	other := profile.Store{Path: filepath.Join(t.TempDir(), "config.json")} // a copy, as a thief has
	if err := other.Save(t.Context(), "default", signedIn); err != nil {
		t.Fatal(err)
	}
	if err := login.Logout(t.Context(), w.store, "default", w.http); err != nil {
		t.Fatal(err)
	}
	if _, err := source.Token(t.Context()); !errors.Is(err, profile.ErrNotLoggedIn) {
		t.Errorf("a running command after logout: %v, want ErrNotLoggedIn", err)
	}
	stolen, _ := w.tokens(other)
	if _, err := stolen.Token(t.Context()); !errors.Is(err, login.ErrSessionEnded) {
		t.Errorf("a copy of the session after logout: %v, want ErrSessionEnded", err)
	}
	f, err := w.store.Load()
	p := f.Profiles["default"]
	if err != nil || p.IsSignedIn() || p.BaseURL != signedIn.BaseURL || p.Organization != "" {
		t.Errorf("profile %+v, %v; want only its API", p, err)
	}
	b, err := os.ReadFile(w.store.Path)
	if err != nil || strings.Contains(string(b), signedIn.Session.Refresh.Reveal()) {
		t.Errorf("the file has the refresh token after logout (%v)", err)
	}
}

func TestLogout_ForgetsTheCredentialInAnOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, issuer.Options{})
	w.signIn()
	w.issuer.Pause()
	err := login.Logout(t.Context(), w.store, "default", w.http)
	if err == nil || !strings.Contains(err.Error(), "you are logged out on this machine") {
		t.Errorf("error %v, want one that says what was done", err)
	}
	if err := w.store.Save(t.Context(), "key", profile.Profile{BaseURL: w.api.URL, Key: "so_1"}); err != nil {
		t.Fatal(err)
	}
	if err := login.Logout(t.Context(), w.store, "key", w.http); err != nil {
		t.Errorf("logout of a key: %v", err)
	}
	f, err := w.store.Load()
	for name, p := range f.Profiles {
		if p.IsSignedIn() {
			t.Errorf("profile %s has a credential (%v)", name, err)
		}
	}
	var unknown *profile.UnknownError
	if err := login.Logout(t.Context(), w.store, "none", w.http); !errors.As(err, &unknown) {
		t.Errorf("unknown profile: %v, want an UnknownError", err)
	}
}
