package issuer_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"

	"agents.example/controlplane/emulators/issuer"
	sessions "agents.example/controlplane/infra/oidc"
	"agents.example/controlplane/shared/identity"
)

func TestSignIn_GivesTokensThatLibrariesAndTheServiceAccept(t *testing.T) {
	t.Parallel()
	i, ctx := start(t, issuer.Options{AccessTTL: time.Minute})
	provider, err := oidc.NewProvider(ctx, i.URL())
	if err != nil {
		t.Fatal(err)
	}
	config := oauth2.Config{
		ClientID: "console", Endpoint: provider.Endpoint(), RedirectURL: redirectURI,
		Scopes: []string{oidc.ScopeOpenID, oidc.ScopeOfflineAccess},
	}
	verifier := oauth2.GenerateVerifier()
	b := newBrowser(t, i)
	address, err := url.Parse(config.AuthCodeURL("state-1", oidc.Nonce("nonce-1"),
		oauth2.S256ChallengeOption(verifier)))
	if err != nil {
		t.Fatal(err)
	}
	if page := b.send(address.String(), nil); page.status != http.StatusOK {
		t.Fatalf("the sign-in page has status %d, want 200", page.status)
	}
	form := address.Query()
	form.Set("choice", "subject=user_1&organization=org_1&role=admin")
	answer := b.answer(b.send("/authorize", form))
	if answer.Get("state") != "state-1" || answer.Get("iss") != i.URL() {
		t.Errorf("answer = %v, want state-1 and iss %s", answer, i.URL())
	}

	token, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	checkTokens(t, i, provider, token, "nonce-1")

	token.Expiry = time.Now().Add(-time.Minute)
	renewed, err := config.TokenSource(ctx, token).Token()
	if err != nil {
		t.Fatal(err)
	}
	if renewed.AccessToken == token.AccessToken || renewed.RefreshToken == token.RefreshToken {
		t.Error("renewal returned a previous token, want new ones")
	}
	checkTokens(t, i, provider, renewed, "")
}

// checkTokens checks the tokens of user_1, admin of org_1.
func checkTokens(t *testing.T, i *issuer.Issuer, provider *oidc.Provider, token *oauth2.Token, nonce string) {
	t.Helper()
	id, _ := token.Extra("id_token").(string)
	verified, err := provider.Verifier(&oidc.Config{ClientID: "console"}).Verify(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if verified.Subject != "user_1" || verified.Nonce != nonce {
		t.Errorf("ID token: sub %q, nonce %q; want user_1, %q", verified.Subject, verified.Nonce, nonce)
	}
	if life := time.Until(token.Expiry); life <= 0 || life > time.Minute {
		t.Errorf("the access token expires in %s, want at most 1 min", life)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	service, err := sessions.NewSessions(sessions.Options{
		Issuer: i.URL(), HTTPClient: &http.Client{Transport: transport},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := service.Verify(t.Context(), token.AccessToken)
	if err != nil {
		t.Fatalf("the service refuses the access token: %v", err)
	}
	want := identity.Claims{
		Issuer: i.URL(), Subject: "user_1", Email: "user_1@example.com", Name: "user 1", OrganizationID: "org_1",
		Role: identity.RoleAdmin, IssuedAt: got.IssuedAt,
	}
	if age := time.Since(got.IssuedAt); age < 0 || age > time.Hour {
		t.Errorf("the token was issued %s ago", age)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
}

// tokens decodes an answer of the token endpoint.
func tokens(t *testing.T, r reply) (access, refresh string) {
	t.Helper()
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusOK {
		t.Fatalf("status %d: %s; want tokens", r.status, r.body)
	}
	return answer.Access, answer.Refresh
}

// mustRefuse checks an error of the token endpoint.
func mustRefuse(t *testing.T, r reply, want string) {
	t.Helper()
	var answer struct{ Error string }
	if err := json.Unmarshal([]byte(r.body), &answer); err != nil || r.status != http.StatusBadRequest ||
		answer.Error != want {
		t.Errorf("status %d: %s; want 400 and %s", r.status, r.body, want)
	}
}

func TestCode_IsForOneClientOneAddressOneVerifierOnce(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	tests := map[string]struct {
		changes map[string]string
		after   time.Duration
		want    string
	}{
		"another verifier":  {changes: map[string]string{"code_verifier": "x" + verifierOf}, want: "invalid_grant"},
		"no verifier":       {changes: map[string]string{"code_verifier": ""}, want: "invalid_grant"},
		"another address":   {changes: map[string]string{"redirect_uri": redirectURI + "2"}, want: "invalid_grant"},
		"another client":    {changes: map[string]string{"client_id": "other"}, want: "invalid_client"},
		"another code":      {changes: map[string]string{"code": "other"}, want: "invalid_grant"},
		"another grant":     {changes: map[string]string{"grant_type": "password"}, want: "unsupported_grant_type"},
		"after a minute":    {after: time.Minute, want: "invalid_grant"},
		"within the minute": {after: time.Minute - time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			code := b.choose(issuer.Session{Subject: "user_1"})
			now.advance(test.after)
			answer := b.exchange(code, test.changes)
			if test.want == "" {
				tokens(t, answer)
				return
			}
			mustRefuse(t, answer, test.want)
		})
	}
}

func TestCode_UsedTwiceRevokesItsTokens(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	code := b.choose(issuer.Session{Subject: "user_1"})
	_, refresh := tokens(t, b.exchange(code, nil))
	mustRefuse(t, b.exchange(code, nil), "invalid_grant")
	mustRefuse(t, b.refresh(refresh), "invalid_grant")
}

func TestRefreshToken_UsedTwiceRevokesItsFamily(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	_, other := tokens(t, b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil))
	_, first := tokens(t, b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil))
	_, second := tokens(t, b.refresh(first))
	mustRefuse(t, b.refresh(first), "invalid_grant")
	mustRefuse(t, b.refresh(second), "invalid_grant")
	tokens(t, b.refresh(other)) // another family
}

func TestRefreshToken_EndsAfterADayAndWithEndSessions(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	_, refresh := tokens(t, b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil))
	now.advance(24*time.Hour - time.Second)
	_, refresh = tokens(t, b.refresh(refresh))
	now.advance(time.Second)
	mustRefuse(t, b.refresh(refresh), "invalid_grant")

	_, refresh = tokens(t, b.exchange(b.choose(issuer.Session{Subject: "user_1"}), nil))
	i.EndSessions()
	mustRefuse(t, b.refresh(refresh), "invalid_grant")
	if page := b.send("/authorize?"+request(nil).Encode(), nil); page.status != http.StatusOK {
		t.Errorf("after EndSessions the status is %d, want the sign-in page", page.status)
	}
}

func TestRefreshToken_NeedsTheScopeOfflineAccess(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	form := request(map[string]string{"scope": "openid", "subject": "user_1"})
	code := b.answer(b.send("/authorize", form)).Get("code")
	if _, refresh := tokens(t, b.exchange(code, nil)); refresh != "" {
		t.Error("got a refresh token, want none without offline_access")
	}
}
