package issuer_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/issuer"
)

func TestChoice_RefusesWhatTheServiceWouldRefuse(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	tests := map[string]struct {
		form    string
		invalid string // field; empty if valid
	}{
		"user only":              {form: "subject=+user_1+"},
		"admin":                  {form: "subject=user_1&organization=org_1&role=admin"},
		"button":                 {form: "choice=subject%3Duser_1%26organization%3Dorg_1%26role%3Dmember"},
		"no user":                {form: "subject=+", invalid: "subject"},
		"long user":              {form: "subject=" + strings.Repeat("x", 256), invalid: "subject"},
		"user not ASCII":         {form: "subject=Zoë", invalid: "subject"},
		"organization with dots": {form: "subject=u&organization=a.b&role=admin", invalid: "organization"},
		"reserved organization":  {form: "subject=u&organization=__a&role=admin", invalid: "organization"},
		"unknown role":           {form: "subject=u&organization=a&role=owner", invalid: "role"},
		"broken button":          {form: "choice=%25", invalid: "subject"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			form, err := url.ParseQuery(test.form)
			if err != nil {
				t.Fatal(err)
			}
			maps.Copy(form, request(nil))
			r := b.send("/authorize", form)
			if test.invalid == "" {
				tokens(t, b.exchange(b.answer(r).Get("code"), nil))
				return
			}
			if r.status != http.StatusUnprocessableEntity || !strings.Contains(r.body, `id="`+test.invalid+`-error"`) {
				t.Errorf("status %d: %s\nwant 422 with a message for %s", r.status, r.body, test.invalid)
			}
		})
	}
}

func TestChoice_OffersTheLastUsedFirst(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{
		Suggestions: []issuer.Session{{Subject: "user_a", Organization: "org_1", Role: "admin"}, {Subject: "user_b"}},
		Names:       map[string]string{"user_a": "Ada Lovelace"},
	})
	b := newBrowser(t, i)
	for _, session := range []issuer.Session{
		{Subject: "user_c"},
		{Subject: "user_x", Claims: map[string]any{"sts": "pending"}},
	} {
		if _, err := i.Session(session); err != nil { // minted, not signed in
			t.Fatal(err)
		}
	}
	b.choose(issuer.Session{Subject: "user_b"})
	page := b.send("/authorize?"+request(map[string]string{"prompt": "login"}).Encode(), nil).body
	last := -1
	for _, want := range []string{"user b", "Ada Lovelace", "Admin of org_1", "user c"} {
		at := strings.Index(page, want)
		if at <= last {
			t.Errorf("%q is at %d, want it after %d", want, at, last)
		}
		last = at
	}
	if strings.Contains(page, "user_x") {
		t.Error("the page offers a session with claims that a test made")
	}
}

func TestPages_RunNoScriptAndAreNotFramed(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	page := b.send("/authorize?"+request(map[string]string{"state": `"><script>alert(1)</script>`}).Encode(), nil)
	want := "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; " +
		"form-action 'self' http://127.0.0.1:8080"
	if got := page.header.Get("Content-Security-Policy"); got != want {
		t.Errorf("Content-Security-Policy = %q, want %q", got, want)
	}
	if strings.Contains(page.body, "<script") {
		t.Error("the page has a script")
	}
	if got := page.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q, want no-store", got)
	}
	for path, want := range map[string]string{
		"/assets/page.css": "text/css; charset=utf-8", "/assets/icon.svg": "image/svg+xml",
	} {
		if r := b.send(path, nil); r.status != http.StatusOK || r.header.Get("Content-Type") != want {
			t.Errorf("%s: status %d, type %q; want 200, %s", path, r.status, r.header.Get("Content-Type"), want)
		}
	}
}
