package login

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"agents.example/controlplane/functions/agentctl/profile"
)

// unsigned returns a JWT with claims and without a usable signature.
func unsigned(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".x"
}

func granted(access, id string) *oauth2.Token {
	return (&oauth2.Token{AccessToken: access, RefreshToken: "refresh-2"}).WithExtra(map[string]any{"id_token": id})
}

func TestCheckIdentity_RefusesTokensOfOthers(t *testing.T) {
	t.Parallel()
	p := provider{Issuer: "https://issuer.example", clientID: "agentctl"}
	now := time.Unix(1000, 0)
	for claims, want := range map[string]string{
		`{"iss":"https://issuer.example","aud":"agentctl","nonce":"n","exp":1060}`:            "",
		`{"iss":"https://issuer.example","aud":["agentctl"],"nonce":"n","exp":800}`:           "",
		`{"iss":"https://issuer.example","aud":["agentctl","x"],"nonce":"n","exp":1060}`:      "another application",
		`{"iss":"https://issuer.example","aud":"console","nonce":"n","exp":1060}`:             "another application",
		`{"iss":"https://evil.example","aud":"agentctl","nonce":"n","exp":1060}`:              "is from",
		`{"iss":"https://issuer.example","aud":"agentctl","nonce":"other","exp":1060}`:        "another sign-in",
		`{"iss":"https://issuer.example","aud":"agentctl","exp":1060}`:                        "another sign-in",
		`{"iss":"https://issuer.example","aud":"agentctl","nonce":"n","exp":600}`:             "expired",
		`{"iss":"https://issuer.example","aud":7,"nonce":"n","exp":1060}`:                     "cannot be read",
		`{"iss":"https://issuer.example","aud":["agentctl","x"],"azp":"agentctl","nonce":"n"`: "cannot be read",
	} {
		_, err := p.checkIdentity(granted("", unsigned(claims)), "n", now)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", claims, err, want)
		}
	}
	if _, err := p.checkIdentity(granted("x", ""), "n", now); err == nil {
		t.Error("no ID token was accepted")
	}
	claims := `{"iss":"https://issuer.example","aud":"agentctl","nonce":"n","exp":1060,"email":"a\u001b[2J@example.com"}`
	got, err := p.checkIdentity(granted("", unsigned(claims)), "n", now)
	if err != nil || got.Email != "a [2J@example.com" {
		t.Errorf("email = %q, %v; want it without control characters", got.Email, err)
	}
}

func TestSetTokens_ChoosesWhatTheAPIReads(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	access, id := unsigned(`{"iat":5,"exp":65}`), unsigned(`{"iat":5,"exp":125}`)
	for name, test := range map[string]struct {
		access, id, want string
		expires          int64
	}{
		"JWT":             {access: access, id: id, want: access, expires: 1060},
		"opaque":          {access: "opaque", id: id, want: id, expires: 1120},
		"nothing to read": {access: "a.b.c"},
	} {
		var s profile.Session
		err := setTokens(&s, granted(test.access, test.id), now)
		if s.Access.Reveal() != test.want || (err == nil) != (test.want != "") ||
			err == nil && s.Expires.Unix() != test.expires {
			t.Errorf("%s: token %t until %d, %v; want until %d", name, s.Access != "", s.Expires.Unix(), err,
				test.expires)
		}
		if s.Refresh.Reveal() != "refresh-2" {
			t.Errorf("%s: the new refresh token was dropped", name)
		}
	}
}
