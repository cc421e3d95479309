package oidc_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/infra/oidc"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

var _ identity.Sessions = (*oidc.Sessions)(nil)

const webApp = "https://app.example.com"

// world is an issuer, a clock, and a verifier of the issuer's tokens.
type world struct {
	*fakeIssuer
	*clock
	sessions *oidc.Sessions
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{fakeIssuer: newIssuer(t), clock: newClock()}
	sessions, err := oidc.New(oidc.Options{
		Issuer: w.URL, AuthorizedParties: []string{"https://other.example.com", webApp}, HTTPClient: w.client,
		Now: w.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.sessions = sessions
	return w
}

// claims are those of a good token, as Clerk writes them.
func (w *world) claims() fields {
	return fields{
		"iss": `"` + w.URL + `"`, "sub": `"user_1"`, "azp": `"` + webApp + `"`, "sts": `"active"`, "sid": `"sess_1"`,
		"v":   "2",
		"iat": w.after(0), "nbf": w.after(-10 * time.Second), "exp": w.after(time.Minute),
		"o": `{"id":"org_1","rol":"admin","slg":"acme"}`, "email": `"a@example.com"`, "name": `"Ada"`,
	}
}

func (w *world) good() string { return sign(key(0), header("k1").String(), w.claims().String()) }

// check verifies a token and reports the error.
func (w *world) check(t *testing.T, token string) error {
	t.Helper()
	_, err := w.sessions.Verify(t.Context(), token)
	return err
}

func mustAccept(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("a good token was refused: %v", err)
	}
}

// mustRefuse checks the one answer to all bad tokens.
func mustRefuse(t *testing.T, err error) {
	t.Helper()
	want := identity.InvalidToken()
	if got := fault.From(err); got == nil || got.Kind != want.Kind || got.Code != want.Code ||
		got.Detail != want.Detail || got.Meta != nil {
		t.Errorf("got %v, want %v", err, want)
	}
}

func mustBeUnavailable(t *testing.T, err error) {
	t.Helper()
	if got := fault.From(err); got == nil || got.Kind != fault.Unavailable ||
		got.Code != "identity_provider_unavailable" {
		t.Errorf("got %v, want identity_provider_unavailable", err)
	}
}

func mustHaveFetched(t *testing.T, w *world, want int) {
	t.Helper()
	if got := w.fetched(); got != want {
		t.Errorf("the keys were fetched %d times, want %d", got, want)
	}
}

func TestVerifyReadsClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		want    identity.Claims
	}{
		"admin": {changes: nil,
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"admin with prefix": {changes: []string{"o", `{"id":"org_1","rol":"org:admin"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"member": {changes: []string{"o", `{"id":"org_1","rol":"member"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"another role": {changes: []string{"o", `{"id":"org_1","rol":"org:administrator"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"role in capitals": {changes: []string{"o", `{"id":"org_1","rol":"ADMIN"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"role by another name": {changes: []string{"o", `{"id":"org_1","Rol":"admin"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"no role": {changes: []string{"o", `{"id":"org_1"}`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"role outside of o": {changes: []string{"o", `{"id":"org_1"}`, "rol", `"admin"`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember}},
		"no o":     {changes: []string{"o", ""}, want: identity.Claims{}},
		"null o":   {changes: []string{"o", "null"}, want: identity.Claims{}},
		"empty o":  {changes: []string{"o", "{}"}, want: identity.Claims{}},
		"empty id": {changes: []string{"o", `{"id":"","rol":"admin"}`}, want: identity.Claims{}},
		"no azp": {changes: []string{"azp", ""},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"no sts": {changes: []string{"sts", ""},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"no nbf, no iat": {changes: []string{"nbf", "", "iat", ""},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"times with a fraction": {changes: []string{"exp", "1800000060.5", "iat", "1.8e9"},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"an audience": {changes: []string{"aud", `["a","b"]`},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"deep unknown claims": {changes: []string{"x", strings.Repeat("[", 100) + strings.Repeat("]", 100)},
			want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"a subject with | and /": {changes: []string{"sub", `"auth0|a/b"`},
			want: identity.Claims{Subject: "auth0|a/b", OrganizationID: "org_1", Role: identity.RoleAdmin}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c.want.Issuer, c.want.Email, c.want.Name = w.URL, "a@example.com", "Ada"
			if c.want.Subject == "" {
				c.want.Subject = "user_1"
			}
			token := sign(key(0), header("k1").String(), w.claims().with(c.changes...).String())
			for _, how := range []string{"first", "again, from memory"} {
				got, err := w.sessions.Verify(t.Context(), token)
				mustAccept(t, err)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s: claims (-want +got):\n%s", how, diff)
				}
			}
		})
	}
}

func TestVerifyWithoutAuthorizedPartiesAllowsAny(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sessions, err := oidc.New(oidc.Options{Issuer: w.URL, HTTPClient: w.client, Now: w.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sessions.Verify(t.Context(),
		sign(key(0), header("k1").String(), w.claims().with("azp", `"https://x.example.com"`).String()))
	mustAccept(t, err)
}

func TestTimesHaveThirtySecondsOfLeeway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim string
		at    time.Duration
		good  bool
	}{
		"expired 29 s ago":     {claim: "exp", at: -29 * time.Second, good: true},
		"expired 30 s ago":     {claim: "exp", at: -30 * time.Second, good: false},
		"good in 30 s":         {claim: "nbf", at: 30 * time.Second, good: true},
		"good in 31 s":         {claim: "nbf", at: 31 * time.Second, good: false},
		"issued in 30 s":       {claim: "iat", at: 30 * time.Second, good: true},
		"issued in 31 s":       {claim: "iat", at: 31 * time.Second, good: false},
		"good in four minutes": {claim: "nbf", at: 4 * time.Minute, good: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			err := w.check(t, sign(key(0), header("k1").String(), w.claims().with(c.claim, w.after(c.at)).String()))
			if c.good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}

func TestRememberedTokenExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	token := w.good()
	mustAccept(t, w.check(t, token))
	w.advance(time.Minute + 29*time.Second)
	mustAccept(t, w.check(t, token))
	w.advance(time.Second)
	mustRefuse(t, w.check(t, token))
}

func TestNewRefusesOptionsThatCannotWork(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "issuer.example.com", "ftp://issuer.example.com", "https://issuer.example.com?x=1",
		"https://", "://"} {
		if _, err := oidc.New(oidc.Options{Issuer: url}); err == nil {
			t.Errorf("issuer %q was taken", url)
		}
	}
	for _, o := range []oidc.PushOptions{
		{Issuer: "https://i.example.com", Audience: "a"},
		{Issuer: "https://i.example.com", ServiceAccount: "a@b"},
		{Audience: "a", ServiceAccount: "a@b"},
	} {
		if _, err := oidc.NewPush(o); err == nil {
			t.Errorf("options %+v were taken", o)
		}
	}
}

func TestAnEndedCallIsNotAnInvalidToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	w.fail(func(rw http.ResponseWriter, r *http.Request) { cancel(); <-release; down(rw, r) })
	_, err := w.sessions.Verify(ctx, w.good())
	close(release)
	if fault.Code(err) != "identity_provider_unavailable" {
		t.Errorf("got %v, want identity_provider_unavailable", err)
	}
}
