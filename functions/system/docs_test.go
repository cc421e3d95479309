package system_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) { functiontest.Main(m) }

func serve(t *testing.T) http.Handler {
	t.Helper()
	var served []function.Served
	for _, r := range system.Docs([]byte(`{"openapi": "3.1.0"}`)) {
		served = append(served, r.Served(function.Guard{}))
	}
	return function.Mux(served)
}

func get(h http.Handler, path string, headers ...string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	return w
}

func TestOpenAPI_SupportsConditionalRequests(t *testing.T) {
	t.Parallel()
	h := serve(t)
	w := get(h, "/openapi.json")
	if w.Code != 200 {
		t.Fatalf("status = %d, want 200", w.Code)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type = %q, want application/json", got)
	}
	if got, want := w.Body.String(), `{"openapi": "3.1.0"}`; got != want {
		t.Errorf("body = %s, want %s", got, want)
	}
	tag := w.Header().Get("ETag")
	for sent, status := range map[string]int{
		tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200,
		"": 200,
	} {
		w := get(h, "/openapi.json", "If-None-Match", sent)
		if w.Code != status {
			t.Errorf("If-None-Match %s: status = %d, want %d", sent, w.Code, status)
		}
		if got := w.Header().Get("ETag"); got != tag {
			t.Errorf("If-None-Match %s: ETag = %s, want %s", sent, got, tag)
		}
		if empty := w.Body.Len() == 0; empty != (status == 304) {
			t.Errorf("If-None-Match %s: body has %d bytes with status %d", sent, w.Body.Len(), status)
		}
	}
}

// TestPlayground_LoadsOnlyLocalFiles: this service serves every file of the page, and the policy allows no other
// source.
func TestPlayground_LoadsOnlyLocalFiles(t *testing.T) {
	t.Parallel()
	h := serve(t)
	page := get(h, "/docs")
	policy := page.Header().Get("Content-Security-Policy")
	if page.Code != 200 {
		t.Fatalf("status = %d, want 200", page.Code)
	}
	if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "http") {
		t.Fatalf("Content-Security-Policy = %q, want only 'self' and 'none' sources", policy)
	}
	addresses := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(addresses) < 4 {
		t.Fatalf("the page loads %v, want at least 4 files", addresses)
	}
	for _, a := range addresses {
		if w := get(h, "/"+a[1]); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: status = %d with %d bytes, want 200 with a body", a[1], w.Code, w.Body.Len())
		}
	}
	if inline := regexp.MustCompile(`<script>|<style| style=| on[a-z]+=`).FindString(page.Body.String()); inline != "" {
		t.Errorf("the page contains %q, which its policy forbids", inline)
	}
}

func TestPlaygroundAssets_AreCompressed(t *testing.T) {
	t.Parallel()
	h := serve(t)
	for _, name := range []string{"docs/swagger-ui.css", "docs/start.js", "openapi.json"} {
		plain := get(h, "/"+name)
		w := get(h, "/"+name, "Accept-Encoding", "gzip")
		if w.Code != 200 || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("%s: status = %d, headers = %v; want 200 with gzip", name, w.Code, w.Header())
		}
		z, err := gzip.NewReader(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(body, plain.Body.Bytes()) {
			t.Errorf("%s: a body of %d bytes differs from the plain one", name, len(body))
		}
	}
	for _, name := range []string{"README.md", "index.html", "swagger-ui.css.gz", "..%2froutes.go", "none"} {
		if w := get(h, "/docs/"+name); w.Code != 404 {
			t.Errorf("%s: status = %d, want 404", name, w.Code)
		}
	}
}
