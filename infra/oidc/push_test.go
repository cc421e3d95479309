package oidc_test

import (
	"net/http"
	"testing"
	"time"

	"agents.example/controlplane/infra/oidc"
)

const (
	pushAudience = "https://worker.example.com/workers/ReconcileAgent"
	pushAccount  = "push@project.iam.gserviceaccount.com"
)

func newPushes(t *testing.T, f *sessionFixture) *oidc.Pushes {
	t.Helper()
	pushes, err := oidc.NewPushes(oidc.PushOptions{
		Issuer: f.URL, Audience: pushAudience, ServiceAccount: pushAccount, HTTPClient: f.client, Now: f.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pushes
}

// pushClaims returns the claims of a token that Google signs for a push subscription.
func (f *sessionFixture) pushClaims() fields {
	return fields{
		"iss": `"` + f.URL + `"`, "aud": `"` + pushAudience + `"`, "azp": `"113774264463038321964"`,
		"sub":   `"113774264463038321964"`,
		"email": `"` + pushAccount + `"`, "email_verified": "true", "iat": f.timestampIn(0),
		"exp": f.timestampIn(time.Hour),
	}
}

func TestPushes_AcceptOnlyTheConfiguredAudienceAndAccount(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		good    bool
	}{
		"a valid token":             {changes: nil, good: true},
		"audience as a list of one": {changes: []string{"aud", `["` + pushAudience + `"]`}, good: true},
		"audience among others": {
			changes: []string{"aud", `["` + pushAudience + `","https://evil.example.com"]`},
			good:    false,
		},
		"audience with a slash": {changes: []string{"aud", `"` + pushAudience + `/"`}, good: false},
		"audience of another worker": {
			changes: []string{"aud", `"https://worker.example.com/workers/Sweep"`},
			good:    false,
		},
		"audience missing":     {changes: []string{"aud", ""}, good: false},
		"audience empty list":  {changes: []string{"aud", "[]"}, good: false},
		"audience is a number": {changes: []string{"aud", "1"}, good: false},
		"another account": {
			changes: []string{"email", `"push@evil.iam.gserviceaccount.com"`}, good: false,
		},
		"account in capitals": {
			changes: []string{"email", `"PUSH@project.iam.gserviceaccount.com"`}, good: false,
		},
		"account missing":                        {changes: []string{"email", ""}, good: false},
		"account is a list":                      {changes: []string{"email", `["` + pushAccount + `"]`}, good: false},
		"email not verified":                     {changes: []string{"email_verified", "false"}, good: false},
		"email_verified is a string":             {changes: []string{"email_verified", `"true"`}, good: false},
		"email_verified missing":                 {changes: []string{"email_verified", ""}, good: false},
		"another issuer":                         {changes: []string{"iss", `"https://evil.example.com"`}, good: false},
		"Google's short name for another issuer": {changes: []string{"iss", `"accounts.google.com"`}, good: false},
		"expired":                                {changes: []string{"exp", "1799999000"}, good: false},
		"exp missing":                            {changes: []string{"exp", ""}, good: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			pushes := newPushes(t, f)
			err := pushes.Verify(t.Context(),
				sign(testKey(0), header("k1").String(), f.pushClaims().with(c.changes...).String()))
			if c.good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}

func TestPushes_RefuseForeignSignaturesAndSessionTokens(t *testing.T) {
	t.Parallel()
	f := newSessionFixture(t)
	pushes := newPushes(t, f)
	mustRefuse(t, pushes.Verify(t.Context(), sign(unpublishedKey(), header("k1").String(), f.pushClaims().String())))
	mustRefuse(t, pushes.Verify(t.Context(), f.validToken()))
	mustRefuse(t, f.verify(t, sign(testKey(0), header("k1").String(), f.pushClaims().String())))
	f.answerWith(answer503)
	mustBeUnavailable(t, newPushes(t, f).Verify(t.Context(), f.validToken()))
}

// Google writes its issuer name with and without the scheme.
func TestPushes_AcceptBothIssuerNamesOfGoogle(t *testing.T) {
	t.Parallel()
	for iss, good := range map[string]bool{
		"https://accounts.google.com": true, "accounts.google.com": true, "http://accounts.google.com": false,
		"https://accounts.google.com/": false,
	} {
		t.Run(iss, func(t *testing.T) {
			t.Parallel()
			f := newSessionFixture(t)
			f.URL = "https://accounts.google.com"
			pushes, err := oidc.NewPushes(oidc.PushOptions{
				Issuer: f.URL, Audience: pushAudience, ServiceAccount: pushAccount,
				HTTPClient: &http.Client{Transport: f.inProcess()}, Now: f.Now,
			})
			if err != nil {
				t.Fatal(err)
			}
			err = pushes.Verify(t.Context(),
				sign(testKey(0), header("k1").String(), f.pushClaims().with("iss", `"`+iss+`"`).String()))
			if good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}
