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

func newPushes(t *testing.T, w *world) *oidc.Pushes {
	t.Helper()
	pushes, err := oidc.NewPush(oidc.PushOptions{
		Issuer: w.URL, Audience: pushAudience, ServiceAccount: pushAccount, HTTPClient: w.client, Now: w.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	return pushes
}

// pushClaims are those of a token that Google signs for a push subscription.
func (w *world) pushClaims() fields {
	return fields{
		"iss": `"` + w.URL + `"`, "aud": `"` + pushAudience + `"`, "azp": `"113774264463038321964"`,
		"sub":   `"113774264463038321964"`,
		"email": `"` + pushAccount + `"`, "email_verified": "true", "iat": w.after(0), "exp": w.after(time.Hour),
	}
}

func TestPushTokens(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		changes []string
		good    bool
	}{
		"control":                   {changes: nil, good: true},
		"audience as a list of one": {changes: []string{"aud", `["` + pushAudience + `"]`}, good: true},
		"audience among others": {changes: []string{"aud", `["` + pushAudience + `","https://evil.example.com"]`},
			good: false},
		"audience with a slash": {changes: []string{"aud", `"` + pushAudience + `/"`}, good: false},
		"audience of another worker": {changes: []string{"aud", `"https://worker.example.com/workers/Sweep"`},
			good: false},
		"audience missing":    {changes: []string{"aud", ""}, good: false},
		"audience empty list": {changes: []string{"aud", "[]"}, good: false},
		"audience a number":   {changes: []string{"aud", "1"}, good: false},
		"another account":     {changes: []string{"email", `"push@evil.iam.gserviceaccount.com"`}, good: false},
		"account in capitals": {changes: []string{"email", `"PUSH@project.iam.gserviceaccount.com"`},
			good: false},
		"account missing":         {changes: []string{"email", ""}, good: false},
		"account a list":          {changes: []string{"email", `["` + pushAccount + `"]`}, good: false},
		"not verified":            {changes: []string{"email_verified", "false"}, good: false},
		"verified as a string":    {changes: []string{"email_verified", `"true"`}, good: false},
		"verified missing":        {changes: []string{"email_verified", ""}, good: false},
		"another issuer":          {changes: []string{"iss", `"https://evil.example.com"`}, good: false},
		"Google, where it is not": {changes: []string{"iss", `"accounts.google.com"`}, good: false},
		"expired":                 {changes: []string{"exp", "1799999000"}, good: false},
		"exp missing":             {changes: []string{"exp", ""}, good: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			pushes := newPushes(t, w)
			err := pushes.Verify(t.Context(),
				sign(key(0), header("k1").String(), w.pushClaims().with(c.changes...).String()))
			if c.good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}

func TestPushTokensOfAStrangerAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pushes := newPushes(t, w)
	mustRefuse(t, pushes.Verify(t.Context(), sign(stranger(), header("k1").String(), w.pushClaims().String())))
	mustRefuse(t, pushes.Verify(t.Context(), w.good()))
	mustRefuse(t, w.check(t, sign(key(0), header("k1").String(), w.pushClaims().String())))
	w.fail(down)
	mustBeUnavailable(t, newPushes(t, w).Verify(t.Context(), w.good()))
}

// Google writes its own name in two ways.
func TestGoogleIsKnownByBothItsNames(t *testing.T) {
	t.Parallel()
	for iss, good := range map[string]bool{
		"https://accounts.google.com": true, "accounts.google.com": true, "http://accounts.google.com": false,
		"https://accounts.google.com/": false,
	} {
		t.Run(iss, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.URL = "https://accounts.google.com"
			pushes, err := oidc.NewPush(oidc.PushOptions{
				Issuer: w.URL, Audience: pushAudience, ServiceAccount: pushAccount,
				HTTPClient: &http.Client{Transport: w.inProcess()}, Now: w.Now,
			})
			if err != nil {
				t.Fatal(err)
			}
			err = pushes.Verify(t.Context(),
				sign(key(0), header("k1").String(), w.pushClaims().with("iss", `"`+iss+`"`).String()))
			if good {
				mustAccept(t, err)
			} else {
				mustRefuse(t, err)
			}
		})
	}
}
