//go:build unix

package consoletest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/emulators/consoletest"
)

// policy is as strict as the console's.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

// site serves a page with a body and a script under the policy, and further files by their path.
func site(t *testing.T, body, script string, files map[string]string) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, `<!doctype html><html lang="en"><head><title>Test page</title>
			<meta name="viewport" content="width=device-width">
			<link rel="icon" href="data:,"><link rel="stylesheet" href="/style.css">
			<script type="module" src="/script.js"></script></head><body><main><h1>Test page</h1>%s</main></body></html>`, body)
	})
	mux.HandleFunc("GET /script.js", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/javascript")
		fmt.Fprint(w, script)
	})
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css")
		fmt.Fprint(w, files["/style.css"])
	})
	mux.HandleFunc("GET /file/{name}", func(w http.ResponseWriter, r *http.Request) {
		content, known := files[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(content))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// attempt is a test inside a test: it records failures instead of failing.
type attempt struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (a *attempt) Errorf(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failures = append(a.failures, fmt.Sprintf(format, args...))
}

func (a *attempt) Fatalf(format string, args ...any) {
	a.Errorf(format, args...)
	runtime.Goexit()
}

func (a *attempt) Failed() bool     { return len(a.failures) > 0 }
func (a *attempt) Cleanup(f func()) { a.cleanups = append(a.cleanups, f) }

// try runs a test with an empty page of a site and returns its failures.
func try(t *testing.T, base string, test func(*consoletest.Page)) string {
	t.Helper()
	suite.RequireBrowser(t)
	a := &attempt{TB: t}
	var running sync.WaitGroup
	running.Go(func() {
		p := suite.NewPage(a, base)
		p.ScreenshotsTo(t.TempDir())
		test(p)
	})
	running.Wait()
	for i := len(a.cleanups) - 1; i >= 0; i-- {
		a.cleanups[i]()
	}
	return strings.Join(a.failures, "\n")
}
