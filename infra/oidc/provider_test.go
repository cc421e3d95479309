package oidc_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/infra/oidc"
	"agents.example/controlplane/shared/identity"
)

// startProvider starts the local identity provider. Tests advance the clock to get past the throttle.
func startProvider(t *testing.T) (*issuer.Issuer, *clock, *http.Client) {
	t.Helper()
	idp, err := issuer.Start(t.Context(), issuer.Options{AuthorizedParty: webApp})
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := idp.Close(); err != nil {
			t.Error(err)
		}
	})
	return idp, &clock{t: time.Now()}, &http.Client{Transport: transport}
}

func signSession(t *testing.T, p *issuer.Issuer) string {
	t.Helper()
	token, err := p.Session(issuer.Session{Subject: "user_1", Organization: "org_1", Role: "org:admin"})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestSessions_FollowKeyRotationsAndOutagesOfTheLocalIssuer(t *testing.T) {
	t.Parallel()
	idp, now, client := startProvider(t)
	sessions, err := oidc.NewSessions(oidc.Options{
		Issuer: idp.URL(), AuthorizedParties: []string{webApp}, HTTPClient: client, Now: now.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	check := func(token string) error { _, err := sessions.Verify(t.Context(), token); return err }

	idp.Pause()
	first := signSession(t, idp)
	mustBeUnavailable(t, check(first))
	idp.Resume()
	now.advance(time.Second)
	got, err := sessions.Verify(t.Context(), first)
	mustAccept(t, err)
	want := identity.Claims{
		Issuer: idp.URL(), Subject: "user_1", Email: "user_1@example.com", Name: "user 1", OrganizationID: "org_1",
		Role: identity.RoleAdmin, IssuedAt: got.IssuedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}

	if err := idp.Rotate(); err != nil {
		t.Fatal(err)
	}
	now.advance(31 * time.Second)
	second := signSession(t, idp)
	mustAccept(t, check(second))
	mustAccept(t, check(first))

	idp.Pause()
	mustAccept(t, check(signSession(t, idp)))
	if err := idp.Rotate(); err != nil {
		t.Fatal(err)
	}
	now.advance(31 * time.Second)
	third := signSession(t, idp)
	mustRefuse(t, check(third))
	idp.Resume()
	now.advance(31 * time.Second)
	mustAccept(t, check(third))
	mustAccept(t, check(second))
	mustRefuse(t, check(first)) // its key was withdrawn two rotations ago
	if got := idp.KeyFetches(); got != 4 {
		t.Errorf("key fetches = %d, want 4: the first one, two rotations, one refusal", got)
	}
}

func TestPushes_VerifyTokensOfTheLocalIssuer(t *testing.T) {
	t.Parallel()
	idp, now, client := startProvider(t)
	pushes, err := oidc.NewPushes(oidc.PushOptions{
		Issuer: idp.URL(), Audience: pushAudience, ServiceAccount: pushAccount, HTTPClient: client, Now: now.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		audience, account string
		good              bool
	}{
		{audience: pushAudience, account: pushAccount, good: true},
		{audience: pushAudience, account: "other@example.com", good: false},
		{audience: "https://other.example.com", account: pushAccount, good: false},
	} {
		token, err := idp.Push(c.audience, c.account)
		if err != nil {
			t.Fatal(err)
		}
		if err := pushes.Verify(t.Context(), token); c.good {
			mustAccept(t, err)
		} else {
			mustRefuse(t, err)
		}
	}
}
