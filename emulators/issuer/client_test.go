package issuer_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"golang.org/x/oauth2"

	"agents.example/controlplane/emulators/issuer"
)

// ofTool are the changes that make a request of the console one of the command line tool.
func ofTool(redirect string) map[string]string {
	return map[string]string{"client_id": issuer.CLIClientID, "redirect_uri": redirect}
}

func TestNativeClient_ComesBackToLoopbackAddressesOnly(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	for redirect, want := range map[string]int{
		"http://127.0.0.1:1/callback": http.StatusOK, "http://127.0.0.1:65535/callback": http.StatusOK,
		"http://[::1]:8080/callback": http.StatusOK, "http://localhost:1/callback": http.StatusBadRequest,
		"http://127.0.0.1:1/console": http.StatusBadRequest, "http://127.0.0.1:1/callback?x=1": http.StatusBadRequest,
		"http://127.0.0.1:1/callback#x": http.StatusBadRequest, "https://127.0.0.1/callback": http.StatusBadRequest,
		"http://10.0.0.1/callback": http.StatusBadRequest,
	} {
		page := b.send("/authorize?"+request(ofTool(redirect)).Encode(), nil)
		if page.status != want || page.header.Get("Location") != "" {
			t.Errorf("%s: status %d, want the page with status %d", redirect, page.status, want)
		}
	}
}

// grantOfTool signs the command line tool in and returns its tokens.
func grantOfTool(t *testing.T, b browser) oauth2.Token {
	t.Helper()
	const redirect = "http://127.0.0.1:9/callback"
	form := request(ofTool(redirect))
	form.Set("subject", "user_1")
	r := b.send("/authorize", form)
	back, err := url.Parse(r.header.Get("Location"))
	if err != nil || back.Query().Get("code") == "" {
		t.Fatalf("status %d, location %q; want a code", r.status, r.header.Get("Location"))
	}
	if refused := b.exchange(back.Query().Get("code"), map[string]string{"redirect_uri": redirect}); refused.status !=
		http.StatusBadRequest {
		t.Errorf("another client exchanges the code: status %d, want 400", refused.status)
	}
	r = b.exchange(back.Query().Get("code"), ofTool(redirect))
	var granted oauth2.Token
	if err := json.Unmarshal([]byte(r.body), &granted); err != nil || granted.RefreshToken == "" {
		t.Fatalf("status %d: %v; want tokens with a refresh token", r.status, err)
	}
	return granted
}

func TestClients_UseOnlyTheirOwnGrants(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	refresh := grantOfTool(t, b).RefreshToken
	if r := b.refresh(refresh); r.status != http.StatusBadRequest { // by the console
		t.Errorf("another client renews: status %d, want 400", r.status)
	}
	b.send("/revoke", url.Values{"client_id": {issuer.DefaultClientID}, "token": {refresh}})
	form := url.Values{
		"grant_type": {"refresh_token"}, "client_id": {issuer.CLIClientID}, "refresh_token": {refresh},
	}
	if r := b.send("/token", form); r.status != http.StatusOK {
		t.Errorf("the client renews after another one's attempts: status %d: %s; want 200", r.status, r.body)
	}
}

func TestRevoke_EndsTheSession(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	refresh := grantOfTool(t, b).RefreshToken
	form := url.Values{"client_id": {issuer.CLIClientID}, "token": {refresh}}
	for range 2 { // a second time is no error
		if r := b.send("/revoke", form); r.status != http.StatusOK || r.body != "" {
			t.Errorf("status %d: %s; want 200 without a body", r.status, r.body)
		}
	}
	renewal := url.Values{
		"grant_type": {"refresh_token"}, "client_id": {issuer.CLIClientID}, "refresh_token": {refresh},
	}
	if r := b.send("/token", renewal); r.status != http.StatusBadRequest {
		t.Errorf("the revoked token renews: status %d, want 400", r.status)
	}
	form.Set("client_id", "other")
	if r := b.send("/revoke", form); r.status != http.StatusBadRequest {
		t.Errorf("an unknown client: status %d, want 400", r.status)
	}
}
