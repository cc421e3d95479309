package console_test

import (
	"net/http"
	"net/http/httptest"
	"path"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions/console"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

func options() console.Options {
	return console.Options{
		Issuer: "https://id.example.com/tenant", ClientID: "client-1", Scopes: "openid email",
		Regions: []string{"us-central1", "europe-west1"}, Support: "mailto:support@example.com",
	}
}

func serve(o console.Options) http.Handler {
	var served []function.Served
	for _, r := range console.Routes(o) {
		served = append(served, r.Served(function.Guard{}))
	}
	return function.Mux(served)
}

func get(h http.Handler, target string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

// addresses returns the addresses of the files that the page loads.
func addresses(page string) []string {
	var found []string
	for _, m := range regexp.MustCompile(`(?:src|href)="(console/[^"]*)"`).FindAllStringSubmatch(page, -1) {
		found = append(found, "/"+m[1])
	}
	return found
}

func TestPage_HasWhatTheAppNeedsToSignIn(t *testing.T) {
	t.Parallel()
	w := get(serve(options()), "/console")
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Fatalf("status = %d, Content-Type = %q; want 200 with HTML", w.Code, w.Header().Get("Content-Type"))
	}
	for _, want := range []string{
		`<html lang="en" data-issuer="https://id.example.com/tenant" data-client-id="client-1" ` +
			`data-scopes="openid email" data-regions="us-central1,europe-west1" ` +
			`data-support="mailto:support@example.com" data-later="console/later-`,
		`<div id="app"></div>`, "<noscript>", "<title>", `<meta name="description"`,
		`<meta name="color-scheme" content="light dark">`, `<link rel="icon"`, `<link rel="stylesheet"`,
		`<script type="module"`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the page has no %s:\n%s", want, w.Body)
		}
	}
	later := regexp.MustCompile(`data-later="([^"]*)"`).FindStringSubmatch(w.Body.String())
	if got := get(serve(options()), "/"+later[1]); got.Code != http.StatusOK {
		t.Errorf("%s: status %d, want 200", later[1], got.Code)
	}
}

// TestPage_AnswersTheIdentityProvidersRedirect holds that the parameters of a redirect change nothing about the page.
func TestPage_AnswersTheIdentityProvidersRedirect(t *testing.T) {
	t.Parallel()
	h := serve(options())
	if w, want := get(h, "/console?code=c&state=s&iss=i"), get(h, "/console"); w.Code != 200 ||
		w.Body.String() != want.Body.String() {
		t.Errorf("status = %d with %d bytes, want the page", w.Code, w.Body.Len())
	}
}

func TestPage_EscapesItsSettings(t *testing.T) {
	t.Parallel()
	const bad = `x"><script>alert(1)</script>&`
	page := get(serve(console.Options{
		Issuer: bad, ClientID: bad, Scopes: bad, Regions: []string{bad}, Support: bad,
	}), "/console").Body.String()
	if n := strings.Count(page, `"x&#34;&gt;&lt;script&gt;`); n != 5 || strings.Contains(page, "<script>alert") {
		t.Errorf("the page has %d escaped settings, want 5:\n%s", n, page)
	}
	if strings.Contains(page, "{{") {
		t.Errorf("the page is not filled:\n%s", page)
	}
}

func TestPage_IsRevalidated(t *testing.T) {
	t.Parallel()
	h := serve(options())
	w := get(h, "/console")
	if got := w.Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("Cache-Control = %q, want no-cache", got)
	}
	if again := get(h, "/console", "If-None-Match", w.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("with the ETag: status = %d, want 304", again.Code)
	}
}

func TestPage_RestrictsTheBrowser(t *testing.T) {
	t.Parallel()
	for issuer, connect := range map[string]string{
		"https://id.example.com/tenant": "'self' https://id.example.com", "http://127.0.0.1:9000": "'self' http://127.0.0.1:9000",
		"": "'self'", "not a URL; script-src *": "'self'",
	} {
		o := options()
		o.Issuer = issuer
		w := get(serve(o), "/console")
		policy := map[string]string{}
		for directive := range strings.SplitSeq(w.Header().Get("Content-Security-Policy"), "; ") {
			name, sources, _ := strings.Cut(directive, " ")
			policy[name] = sources
		}
		for name, want := range map[string]string{
			"default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "img-src": "'self' data:",
			"font-src": "'none'", "connect-src": connect, "object-src": "'none'", "base-uri": "'none'",
			"form-action": "'none'", "frame-ancestors": "'none'", "require-trusted-types-for": "'script'",
			"trusted-types": "'none'",
		} {
			if policy[name] != want {
				t.Errorf("issuer %q: %s is %q, want %q", issuer, name, policy[name], want)
			}
			delete(policy, name)
		}
		if len(policy) > 0 {
			t.Errorf("issuer %q: the policy also has %v: add it to this test", issuer, policy)
		}
		for name, want := range map[string]string{
			"Cross-Origin-Opener-Policy": "same-origin", "Referrer-Policy": "no-referrer",
			"X-Content-Type-Options": "nosniff",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
		if got := w.Header().Get("Permissions-Policy"); !strings.Contains(got, "camera=()") {
			t.Errorf("Permissions-Policy = %q, want no camera", got)
		}
		inline := regexp.MustCompile(`<script>|<style| style=| on[a-z]+=|src="http|href="http`)
		if found := inline.FindString(w.Body.String()); found != "" {
			t.Errorf("the page contains %q, which its policy forbids", found)
		}
	}
}

func TestAssets_AreServedForever(t *testing.T) {
	t.Parallel()
	h := serve(options())
	types := map[string]string{
		".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	}
	loaded := addresses(get(h, "/console").Body.String())
	if len(loaded) < 3 {
		t.Fatalf("the page loads %v, want at least a script, a style sheet and an icon", loaded)
	}
	for _, address := range loaded {
		plain, zipped := get(h, address), get(h, address, "Accept-Encoding", "gzip")
		for _, w := range []*httptest.ResponseRecorder{plain, zipped} {
			if w.Code != 200 || w.Body.Len() == 0 {
				t.Errorf("%s: status = %d with %d bytes, want 200 with a body", address, w.Code, w.Body.Len())
			}
			for name, want := range map[string]string{
				"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding",
				"X-Content-Type-Options": "nosniff", "Content-Type": types[path.Ext(address)],
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %s = %q, want %q", address, name, got, want)
				}
			}
		}
		if got := zipped.Header().Get("Content-Encoding"); got != "gzip" {
			t.Errorf("%s: Content-Encoding = %q, want gzip", address, got)
		}
		tag := zipped.Header().Get("ETag")
		if tag == "" || tag == plain.Header().Get("ETag") {
			t.Errorf("%s: the ETag is %q compressed and %q plain", address, tag, plain.Header().Get("ETag"))
		}
		again := get(h, address, "Accept-Encoding", "gzip", "If-None-Match", tag)
		if again.Code != http.StatusNotModified {
			t.Errorf("%s: status = %d with the ETag, want 304", address, again.Code)
		}
	}
}

func TestAssets_OthersAreNotFound(t *testing.T) {
	t.Parallel()
	h := serve(options())
	for _, name := range []string{"meta.json", "main.js", "main.tsx", "page.html", "..%2fconsole.go", "none"} {
		w := get(h, "/console/"+name)
		if w.Code != 404 {
			t.Errorf("%s: status = %d, want 404", name, w.Code)
		}
		if got := w.Header().Get("Cache-Control"); strings.Contains(got, "immutable") {
			t.Errorf("%s: browsers would keep the refusal: Cache-Control = %q", name, got)
		}
	}
}
