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

// sessionFixture is a fake issuer, a clock, and a verifier of the issuer's session tokens.
type sessionFixture struct {
	*fakeIssuer
	*clock
	sessions *oidc.Sessions
}

func newSessionFixture(t *testing.T) *sessionFixture {
	t.Helper()
	f := &sessionFixture{fakeIssuer: newFakeIssuer(t), clock: newClock()}
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: f.URL, AuthorizedParties: []string{"https://other.example.com", webApp}, HTTPClient: f.client,
		Now: f.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.sessions = sessions
	return f
}

// claims returns the claims of a valid token, as Clerk writes them.
func (f *sessionFixture) claims() fields {
	return fields{
		"iss": `"` + f.URL + `"`, "sub": `"user_1"`, "azp": `"` + webApp + `"`, "sts": `"active"`, "sid": `"sess_1"`,
		"v":   "2",
		"iat": f.timestampIn(0), "nbf": f.timestampIn(-10 * time.Second), "exp": f.timestampIn(time.Minute),
		"o": `{"id":"org_1","rol":"admin","slg":"acme"}`, "email": `"a@example.com"`, "name": `"Ada"`,
	}
}

func (f *sessionFixture) validToken() string {
	return sign(testKey(0), header("k1").String(), f.claims().String())
}

// verify returns the error of verifying a token.
func (f *sessionFixture) verify(t *testing.T, token string) error {
	t.Helper()
	_, err := f.sessions.Verify(t.Context(), token)
	return err
}

func mustAccept(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("a valid token was refused: %v", err)
	}
}

// mustRefuse checks that the error is the one answer to all invalid tokens.
func mustRefuse(t *testing.T, err error) {
	t.Helper()
	want, got := identity.InvalidToken(), fault.From(err)
	if got == nil {
		t.Error("the token was accepted, want it refused")
		return
	}
	if got.Kind != want.Kind {
		t.Errorf("Kind = %v, want %v (%v)", got.Kind, want.Kind, err)
	}
	if got.Code != want.Code {
		t.Errorf("Code = %s, want %s (%v)", got.Code, want.Code, err)
	}
	if got.Detail != want.Detail {
		t.Errorf("Detail = %q, want %q", got.Detail, want.Detail)
	}
	if got.Meta != nil {
		t.Errorf("Meta = %v, want none", got.Meta)
	}
}

func mustBeUnavailable(t *testing.T, err error) {
	t.Helper()
	if got := fault.From(err); got == nil || got.Kind != fault.Unavailable ||
		got.Code != "identity_provider_unavailable" {
		t.Errorf("error = %v, want identity_provider_unavailable", err)
	}
}

func mustHaveFetched(t *testing.T, f *sessionFixture, want int) {
	t.Helper()
	if got := f.fetchCount(); got != want {
		t.Errorf("key fetches = %d, want %d", got, want)
	}
}

func TestSessions_ReadClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		want    identity.Claims
		noTime  bool
		noEmail bool
	}{
		"admin": {changes: nil, want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}},
		"admin with prefix": {
			changes: []string{"o", `{"id":"org_1","rol":"org:admin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"member": {
			changes: []string{"o", `{"id":"org_1","rol":"member"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"another role": {
			changes: []string{"o", `{"id":"org_1","rol":"org:administrator"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"a role that ends in admin: superadmin": {
			changes: []string{"o", `{"id":"org_1","rol":"superadmin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"a role that ends in admin: billing_admin": {
			changes: []string{"o", `{"id":"org_1","rol":"billing_admin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"a role that ends in admin: org:billing:admin": {
			changes: []string{"o", `{"id":"org_1","rol":"org:billing:admin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"a role that ends in admin: org:org:admin": {
			changes: []string{"o", `{"id":"org_1","rol":"org:org:admin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"role in capitals": {
			changes: []string{"o", `{"id":"org_1","rol":"ADMIN"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"role under another name": {
			changes: []string{"o", `{"id":"org_1","Rol":"admin"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"no role": {
			changes: []string{"o", `{"id":"org_1"}`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"role outside of o": {
			changes: []string{"o", `{"id":"org_1"}`, "rol", `"admin"`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleMember},
		},
		"no o":     {changes: []string{"o", ""}, want: identity.Claims{}},
		"null o":   {changes: []string{"o", "null"}, want: identity.Claims{}},
		"empty o":  {changes: []string{"o", "{}"}, want: identity.Claims{}},
		"empty id": {changes: []string{"o", `{"id":"","rol":"admin"}`}, want: identity.Claims{}},
		"no azp": {
			changes: []string{"azp", ""}, want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"no sts": {
			changes: []string{"sts", ""}, want: identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"no nbf, no iat": {
			changes: []string{"nbf", "", "iat", ""},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}, noTime: true,
		},
		"times with a fraction": {
			changes: []string{"exp", "1800000060.5", "iat", "1.8e9"},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"an audience": {
			changes: []string{"aud", `["a","b"]`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"verified address": {
			changes: []string{"email_verified", "true"},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"address verified in a text": {
			changes: []string{"email_verified", `"true"`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"address of anyone": {
			changes: []string{"email_verified", "false"},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}, noEmail: true,
		},
		"address of anyone in a text": {
			changes: []string{"email_verified", `"false"`},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin}, noEmail: true,
		},
		"deep unknown claims": {
			changes: []string{"x", strings.Repeat("[", 100) + strings.Repeat("]", 100)},
			want:    identity.Claims{OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
		"a subject with | and /": {
			changes: []string{"sub", `"auth0|a/b"`},
			want:    identity.Claims{Subject: "auth0|a/b", OrganizationID: "org_1", Role: identity.RoleAdmin},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			c.want.Issuer, c.want.Email, c.want.Name = f.URL, "a@example.com", "Ada"
			if c.want.Subject == "" {
				c.want.Subject = "user_1"
			}
			if !c.noTime {
				c.want.IssuedAt = f.Now()
			}
			if c.noEmail {
				c.want.Email = ""
			}
			token := sign(testKey(0), header("k1").String(), f.claims().with(c.changes...).String())
			for _, call := range []string{"first call", "cached call"} {
				got, err := f.sessions.Verify(t.Context(), token)
				mustAccept(t, err)
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s: claims (-want +got):\n%s", call, diff)
				}
			}
		})
	}
}

func TestSessions_AcceptAnyPartyIfNoneIsConfigured(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	sessions, err := oidc.NewSessions(oidc.Options{Issuer: f.URL, HTTPClient: f.client, Now: f.Now})
	if err != nil {
		t.Fatal(err)
	}
	_, err = sessions.Verify(t.Context(),
		sign(testKey(0), header("k1").String(), f.claims().with("azp", `"https://x.example.com"`).String()))
	mustAccept(t, err)
}

func TestSessions_AllowThirtySecondsOfLeeway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		claim string
		at    time.Duration
		good  bool
	}{
		"expired 29 s ago":                 {claim: "exp", at: -29 * time.Second, good: true},
		"expired 30 s ago":                 {claim: "exp", at: -30 * time.Second, good: false},
		"not before 30 s from now":         {claim: "nbf", at: 30 * time.Second, good: true},
		"not before 31 s from now":         {claim: "nbf", at: 31 * time.Second, good: false},
		"issued 30 s from now":             {claim: "iat", at: 30 * time.Second, good: true},
		"issued 31 s from now":             {claim: "iat", at: 31 * time.Second, good: false},
		"not before four minutes from now": {claim: "nbf", at: 4 * time.Minute, good: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			err := f.verify(t, sign(testKey(0), header("k1").String(),
				f.claims().with(c.claim, f.timestampIn(c.at)).String()))
			if c.good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}

func TestSessions_CachedTokenExpires(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	token := f.validToken()
	mustAccept(t, f.verify(t, token))
	f.advance(time.Minute + 29*time.Second)
	mustAccept(t, f.verify(t, token))
	f.advance(time.Second)
	mustRefuse(t, f.verify(t, token))
}

func TestNew_RefusesInvalidOptions(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"", "issuer.example.com", "ftp://issuer.example.com", "https://issuer.example.com?x=1",
		"https://", "://",
	} {
		if _, err := oidc.NewSessions(oidc.Options{Issuer: url}); err == nil {
			t.Errorf("New with issuer %q returned no error", url)
		}
	}
	for _, o := range []oidc.PushOptions{
		{Issuer: "https://i.example.com", Audience: "a"},
		{Issuer: "https://i.example.com", ServiceAccount: "a@b"},
		{Audience: "a", ServiceAccount: "a@b"},
	} {
		if _, err := oidc.NewPushes(o); err == nil {
			t.Errorf("NewPush with %+v returned no error", o)
		}
	}
}

func TestSessions_CanceledCallIsUnavailableNotUnauthenticated(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	f.answerWith(func(rw http.ResponseWriter, r *http.Request) { cancel(); <-release; answer503(rw, r) })
	_, err := f.sessions.Verify(ctx, f.validToken())
	close(release)
	if fault.Code(err) != "identity_provider_unavailable" {
		t.Errorf("error = %v, want identity_provider_unavailable", err)
	}
}
