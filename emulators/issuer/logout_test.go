package issuer_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
)

// logoutPath returns the address that signs out.
func logoutPath(hint string) string {
	return "/logout?" + url.Values{
		"client_id": {"console"}, "id_token_hint": {hint}, "post_logout_redirect_uri": {redirectURI}, "state": {"out"},
	}.Encode()
}

func TestLogout_WithTheIDTokenEndsTheSignIn(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	granted := b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil)
	var answer struct {
		ID      string `json:"id_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(granted.body), &answer); err != nil {
		t.Fatal(err)
	}
	code := b.answer(b.send("/authorize?"+request(nil).Encode(), nil)).Get("code")
	now.advance(30 * time.Second)
	if got := b.answer(b.send(logoutPath(answer.ID), nil)).Get("state"); got != "out" {
		t.Errorf("state = %q, want out", got)
	}
	mustRefuse(t, b.refresh(answer.Refresh), "invalid_grant")
	mustRefuse(t, b.exchange(code, nil), "invalid_grant")
	if r := b.send("/authorize?"+request(nil).Encode(), nil); r.status != http.StatusOK {
		t.Errorf("after sign-out: status %d, want the sign-in page", r.status)
	}
}

func TestLogout_WithoutAnIDTokenAsks(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	foreign, _ := start(t, issuer.Options{URL: i.URL()})
	if err := foreign.Rotate(); err != nil { // issuers of one process have the same first key
		t.Fatal(err)
	}
	forged, err := foreign.Mint(map[string]any{"iss": i.URL(), "sid": "sess_x"})
	if err != nil {
		t.Fatal(err)
	}
	for name, hint := range map[string]string{"none": "", "not a token": "x", "token of another key": forged} {
		b := newBrowser(t, i)
		_, refresh := tokens(t, b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil))
		page := b.send(logoutPath(hint), nil)
		if page.status != http.StatusOK || !strings.Contains(page.body, `<form method="post" action="/logout">`) {
			t.Errorf("%s: status %d: %s; want a form", name, page.status, page.body)
		}
		_, refresh = tokens(t, b.refresh(refresh)) // still signed in
		form := url.Values{"post_logout_redirect_uri": {redirectURI}, "state": {"out"}}
		if got := b.answer(b.send("/logout", form)).Get("state"); got != "out" {
			t.Errorf("%s: state = %q, want out", name, got)
		}
		mustRefuse(t, b.refresh(refresh), "invalid_grant")
	}
}

func TestLogout_EndsOnlyAtRegisteredAddresses(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	if r := b.send("/logout?post_logout_redirect_uri=http://evil.example/", nil); r.status != http.StatusBadRequest {
		t.Errorf("foreign address: status %d, want 400", r.status)
	}
	r := b.send("/logout", nil)
	if r.status != http.StatusOK || !strings.Contains(r.body, "You are signed out") {
		t.Errorf("no address: status %d: %s; want the page of a browser that is signed out", r.status, r.body)
	}
}
