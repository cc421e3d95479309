package issuer_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/emulators/issuer"
)

func TestCORS_IsForPagesOfThisMachine(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	origins := map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:3000": true, "http://[::1]:80": true,
		"https://localhost":   true,
		"http://evil.example": false, "http://127.0.0.1.evil.example": false, "http://a.agents.localhost:80": false,
		"null": false, "": false,
	}
	paths := map[string]string{
		"/.well-known/openid-configuration": http.MethodGet, "/jwks.json": http.MethodGet, "/token": http.MethodPost,
	}
	for origin, allowed := range origins {
		want := ""
		if allowed {
			want = origin
		}
		for path, method := range paths {
			for _, method := range []string{method, http.MethodOptions} {
				r, err := http.NewRequestWithContext(t.Context(), method, i.URL()+path, http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("Origin", origin)
				answer := b.do(r)
				if got := answer.header.Get("Access-Control-Allow-Origin"); got != want {
					t.Errorf("%s %s from %q: Access-Control-Allow-Origin = %q, want %q", method, path, origin, got,
						want)
				}
				if got := answer.header.Get("Vary"); got != "Origin" {
					t.Errorf("%s %s: Vary = %q, want Origin", method, path, got)
				}
			}
		}
	}
}

func TestCORS_AllowsNoHeaderThatOtherProcessesSend(t *testing.T) {
	t.Parallel()
	i, _ := start(t, issuer.Options{})
	b := newBrowser(t, i)
	for _, path := range []string{"/token", "/tickets", "/authorize"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, i.URL()+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Origin", "http://127.0.0.1:8080")
		r.Header.Set("Access-Control-Request-Headers", "content-type")
		if got := b.do(r).header.Get("Access-Control-Allow-Headers"); got != "" {
			t.Errorf("%s: Access-Control-Allow-Headers = %q, want none: pages could mint tokens", path, got)
		}
	}
}
