package issuer_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/issuer"
)

func TestAuthorize_RefusesUnknownClientsAndAddressesWithAPage(t *testing.T) {
	t.Parallel()
	const registered = "https://console.example/console"
	i, _ := start(t, issuer.Options{Clients: []issuer.Client{
		{ID: issuer.DefaultClientID, RedirectURIs: []string{registered}},
	}})
	b := newBrowser(t, i)
	tests := map[string]struct {
		parameter, value string
		want             int
	}{
		"unknown client": {parameter: "client_id", value: "other", want: http.StatusBadRequest},
		"no client":      {parameter: "client_id", want: http.StatusBadRequest},
		"no address":     {parameter: "redirect_uri", want: http.StatusBadRequest},
		"another host": {
			parameter: "redirect_uri", value: "http://evil.example/", want: http.StatusBadRequest,
		},
		"host that looks local": {
			parameter: "redirect_uri", value: "http://127.0.0.1.evil.example/", want: http.StatusBadRequest,
		},
		"user that looks local": {
			parameter: "redirect_uri", value: "http://127.0.0.1@evil.example/", want: http.StatusBadRequest,
		},
		"agent's page": {
			parameter: "redirect_uri", value: "http://a.agents.localhost/", want: http.StatusBadRequest,
		},
		"script": {
			parameter: "redirect_uri", value: "javascript:alert(1)", want: http.StatusBadRequest,
		},
		"fragment":                 {parameter: "redirect_uri", value: redirectURI + "#x", want: http.StatusBadRequest},
		"other path of registered": {parameter: "redirect_uri", value: registered + "2", want: http.StatusBadRequest},
		"registered":               {parameter: "redirect_uri", value: registered, want: http.StatusOK},
		"localhost": {
			parameter: "redirect_uri", value: "http://localhost:1/console", want: http.StatusOK,
		},
		"another loopback address": {parameter: "redirect_uri", value: "http://127.1.2.3:80/", want: http.StatusOK},
		"loopback address, IPv6":   {parameter: "redirect_uri", value: "http://[::1]:80/", want: http.StatusOK},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			form := request(map[string]string{test.parameter: test.value})
			page := b.send("/authorize?"+form.Encode(), nil)
			if page.status != test.want || page.header.Get("Location") != "" {
				t.Errorf("status %d, location %q; want the page with status %d", page.status,
					page.header.Get("Location"), test.want)
			}
			if test.want == http.StatusOK {
				return
			}
			form.Set("subject", "user_1")
			if page := b.send("/authorize", form); page.status != test.want {
				t.Errorf("the form's status is %d, want %d", page.status, test.want)
			}
		})
	}
}

func TestAuthorize_ReturnsErrorsToTheClient(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	tests := map[string]struct {
		changes map[string]string
		want    string
	}{
		"implicit flow":         {map[string]string{"response_type": "token"}, "unsupported_response_type"},
		"fragment response":     {map[string]string{"response_mode": "fragment"}, "invalid_request"},
		"no challenge":          {map[string]string{"code_challenge": ""}, "invalid_request"},
		"short challenge":       {map[string]string{"code_challenge": "abc"}, "invalid_request"},
		"plain challenge":       {map[string]string{"code_challenge_method": "plain"}, "invalid_request"},
		"no challenge method":   {map[string]string{"code_challenge_method": ""}, "invalid_request"},
		"no OpenID":             {map[string]string{"scope": "profile"}, "invalid_scope"},
		"request object":        {map[string]string{"request": "x"}, "request_not_supported"},
		"request by reference":  {map[string]string{"request_uri": "https://x"}, "request_uri_not_supported"},
		"none and login":        {map[string]string{"prompt": "none login"}, "invalid_request"},
		"invalid maximum age":   {map[string]string{"max_age": "x"}, "invalid_request"},
		"not signed in, silent": {map[string]string{"prompt": "none"}, "login_required"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer := b.answer(b.send("/authorize?"+request(test.changes).Encode(), nil))
			if answer.Get("error") != test.want || answer.Get("state") != "state-1" || answer.Get("iss") != i.URL() ||
				answer.Has("code") {
				t.Errorf("answer = %v, want %s with state and iss and without a code", answer, test.want)
			}
		})
	}
	repeated := request(nil)
	repeated.Add("scope", "openid")
	if got := b.answer(b.send("/authorize?"+repeated.Encode(), nil)).Get("error"); got != "invalid_request" {
		t.Errorf("error of a repeated parameter = %q, want invalid_request", got)
	}
}

func TestAuthorize_AsksOnlyIfItMust(t *testing.T) {
	t.Parallel()
	now := &clock{t: time.Now()}
	i, _ := start(t, issuer.Options{Now: now.now})
	b := newBrowser(t, i)
	b.choose(issuer.Session{Subject: "user_1", Organization: "org_1", Role: "admin"})
	now.advance(time.Minute)
	tests := map[string]struct {
		changes map[string]string
		asks    bool
	}{
		"signed in":         {changes: nil},
		"silent":            {changes: map[string]string{"prompt": "none"}},
		"other user":        {changes: map[string]string{"prompt": "select_account"}, asks: true},
		"again":             {changes: map[string]string{"prompt": "login"}, asks: true},
		"recent enough":     {changes: map[string]string{"max_age": "60"}},
		"not recent enough": {changes: map[string]string{"max_age": "59"}, asks: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := b.send("/authorize?"+request(test.changes).Encode(), nil)
			if test.asks {
				if r.status != http.StatusOK || !strings.Contains(r.body, `aria-current="true"`) {
					t.Errorf("status %d, want the page, which marks the current user: %s", r.status, r.body)
				}
				return
			}
			tokens(t, b.exchange(b.answer(r).Get("code"), nil))
		})
	}
	now.advance(24 * time.Hour)
	if r := b.send("/authorize?"+request(nil).Encode(), nil); r.status != http.StatusOK {
		t.Errorf("a day later the status is %d, want the page", r.status)
	}
}

func TestAuthorize_RefusesFormsOfOtherOrigins(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	tests := map[string]struct {
		header []string
		want   int
	}{
		"page of the issuer":     {[]string{"Sec-Fetch-Site", "same-origin"}, http.StatusSeeOther},
		"older browser":          {[]string{"Origin", i.URL()}, http.StatusSeeOther},
		"another site":           {[]string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		"another port":           {[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		"older browser, foreign": {[]string{"Origin", "http://evil.example"}, http.StatusForbidden},
		"hidden origin":          {[]string{"Origin", "null"}, http.StatusForbidden},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			form := request(map[string]string{"subject": "user_1"})
			if got := b.send("/authorize", form, test.header...).status; got != test.want {
				t.Errorf("sign-in: status = %d, want %d", got, test.want)
			}
			form.Set("post_logout_redirect_uri", redirectURI)
			if got := b.send("/logout", form, test.header...).status; got != test.want {
				t.Errorf("sign-out: status = %d, want %d", got, test.want)
			}
		})
	}
}

func TestAuthorize_CookieIsNotForScriptsAndOtherSites(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	cookie := newBrowser(t, i).send("/authorize", request(map[string]string{"subject": "user_1"})).
		header.Get("Set-Cookie")
	for _, want := range []string{"; HttpOnly", "; SameSite=Lax", "; Path=/"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie = %q, want %q in it", cookie, want)
		}
	}
	other, _ := start(t, issuer.Options{})
	if name, _, _ := strings.Cut(cookie, "="); strings.HasPrefix(
		newBrowser(t, other).send("/authorize", request(map[string]string{"subject": "user_1"})).
			header.Get("Set-Cookie"), name+"=") {
		t.Error("two issuers use the same cookie, which browsers send to all ports")
	}
}
