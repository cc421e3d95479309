package system_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"agents.example/controlplane/functions/system"
	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(m.Run())
}

func serve(t *testing.T) http.Handler {
	t.Helper()
	var served []function.Served
	for _, r := range system.Docs([]byte(`{"openapi": "3.1.0"}`)) {
		served = append(served, function.Served{Method: r.Method, Path: r.Path, Handler: r.Handler(function.Guard{})})
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

func TestDescription(t *testing.T) {
	t.Parallel()
	h := serve(t)
	w := get(h, "/openapi.json")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" ||
		w.Body.String() != `{"openapi": "3.1.0"}` {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	tag := w.Header().Get("ETag")
	for sent, status := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200,
		"": 200} {
		w := get(h, "/openapi.json", "If-None-Match", sent)
		if w.Code != status || w.Header().Get("ETag") != tag || (status == 304) != (w.Body.Len() == 0) {
			t.Errorf("If-None-Match %s: %d %v with %d bytes", sent, w.Code, w.Header(), w.Body.Len())
		}
	}
}

// TestPageLoadsItsOwnFilesOnly follows every address of the page: each is served here, and its policy allows no other.
func TestPageLoadsItsOwnFilesOnly(t *testing.T) {
	t.Parallel()
	h := serve(t)
	page := get(h, "/docs")
	policy := page.Header().Get("Content-Security-Policy")
	if page.Code != 200 || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") ||
		strings.Contains(policy, "http") {
		t.Fatalf("%d with the policy %q", page.Code, policy)
	}
	addresses := regexp.MustCompile(`(?:src|href)="([^"]*)"`).FindAllStringSubmatch(page.Body.String(), -1)
	if len(addresses) < 4 {
		t.Fatalf("the page loads %v", addresses)
	}
	for _, a := range addresses {
		if w := get(h, "/"+a[1]); w.Code != 200 || w.Body.Len() == 0 {
			t.Errorf("%s: %d with %d bytes", a[1], w.Code, w.Body.Len())
		}
	}
	if inline := regexp.MustCompile(`<script>|<style| style=| on[a-z]+=`).FindString(page.Body.String()); inline != "" {
		t.Errorf("the page has %q, which its policy forbids", inline)
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	h := serve(t)
	plain := get(h, "/docs/swagger-ui.css")
	for accept, encoding := range map[string]string{
		"gzip": "gzip", "br, gzip;q=0.5": "gzip", "*": "gzip", "GZIP": "gzip", "": "", "br": "", "gzip;q=0": "",
		"gzip; q=0.0, br": "",
	} {
		w := get(h, "/docs/swagger-ui.css", "Accept-Encoding", accept)
		if w.Code != 200 || w.Header().Get("Content-Encoding") != encoding ||
			w.Header().Get("Vary") != "Accept-Encoding" {
			t.Errorf("Accept-Encoding %q: %d %v", accept, w.Code, w.Header())
			continue
		}
		body := w.Body.Bytes()
		if encoding == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
			if w.Header().Get("ETag") == plain.Header().Get("ETag") {
				t.Errorf("Accept-Encoding %q: two encodings have one tag", accept)
			}
		}
		if !bytes.Equal(body, plain.Body.Bytes()) {
			t.Errorf("Accept-Encoding %q: another body of %d bytes", accept, len(body))
		}
	}
	for _, name := range []string{"README.md", "index.html", "swagger-ui.css.gz", "..%2froutes.go", "none"} {
		if w := get(h, "/docs/"+name); w.Code != 404 {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
}
