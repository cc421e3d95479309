package router_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// ask sends a request that is counted before it returns.
func (w *world) ask(host, path string) {
	w.t.Helper()
	req := httptest.NewRequest(http.MethodGet, path, nil)
	req.Host = host
	res := httptest.NewRecorder()
	if w.router.ServeHTTP(res, req); res.Code == http.StatusNotFound {
		w.t.Fatalf("%s: got %d", host, res.Code)
	}
}

// wantCounts scrapes once.
func (w *world) wantCounts(what, host string, want map[string]string) {
	w.t.Helper()
	if got := w.counts(host); !maps.Equal(got, want) {
		w.t.Errorf("%s: http_requests_total of %q = %v, want %v", what, host, got, want)
	}
}

// TestRouter_BeginsEachSeriesWithZero holds that an agent's first requests, and the first failure after others, are the
// difference of two scrapes: Managed Prometheus counts from the first value of a series.
func TestRouter_BeginsEachSeriesWithZero(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(http.ResponseWriter, *http.Request) {})
	host := hostname(a)
	w.ask(host, "/")
	w.ask(host, "/")
	durations := `http_request_duration_seconds_count{host="` + host + `"} `
	if scraped := w.scrape(); !strings.Contains(scraped, durations+"0\n") {
		t.Errorf("the first scrape lacks %s0", durations)
	}
	if scraped := w.scrape(); !strings.Contains(scraped, durations+"2\n") {
		t.Errorf("the second scrape lacks %s2", durations)
	}
	w.wantCounts("two requests", host, map[string]string{"200": "2"})
	e := w.Lookup(a.Namespace())
	w.set(a, router.Endpoint{State: router.NotReady})
	w.ask(host, "/")
	w.wantCounts("a first failure", host, map[string]string{"200": "2", "503": "0"})
	w.set(a, e)
	w.ask(host, "/")
	w.wantCounts("one more request", host, map[string]string{"200": "3", "503": "1"})
}

// TestRouter_EndsTheSeriesOfAgentsThatDoNotRun holds that a sleeping agent costs no samples, and that each of its
// requests is scraped before.
func TestRouter_EndsTheSeriesOfAgentsThatDoNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(http.ResponseWriter, *http.Request) {})
	host, e := hostname(a), w.Lookup(a.Namespace())
	w.ask(host, "/")
	w.set(a, router.Endpoint{State: router.NotReady})
	w.wantCounts("asleep after one request", host, map[string]string{"200": "0"})
	w.wantCounts("one scrape later", host, map[string]string{"200": "1"})
	if scraped := w.scrape(); strings.Contains(scraped, host) {
		t.Error("the series of an agent that sleeps remain after its requests were scraped")
	}
	w.set(a, e)
	w.ask(host, "/")
	w.wantCounts("awake", host, map[string]string{"200": "0"})
	for range 3 {
		w.wantCounts("awake without further requests", host, map[string]string{"200": "1"})
	}
}

// TestRouter_CountsNoHealthChecks holds that an agent of which the control plane asks alone how it is has no requests,
// latency and failures. Requests that the agent's container answers count, whatever path and headers they have.
func TestRouter_CountsNoHealthChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(http.ResponseWriter, *http.Request) {})
	host, e := hostname(a), w.Lookup(a.Namespace())
	checks := []string{
		dataplane.PathReady, dataplane.PathDashboard, dataplane.PathDoor, dataplane.PathAuthCheck,
		dataplane.PathCalls, dataplane.PathCalls + "/id",
	}
	for _, state := range []router.State{router.Ready, router.NotReady, router.Stopped} {
		e.State = state
		w.set(a, e)
		for _, path := range checks {
			w.ask(host, path)
		}
	}
	w.scrape()
	if scraped := w.scrape(); strings.Contains(scraped, host) {
		t.Error("an agent that got nothing but health checks has series")
	}
	e.State = router.Ready
	w.set(a, e)
	paths := []string{"/", "/health/", "/health/ready/", "/health/callsign", "/auth/check/x", dataplane.PathHandoff}
	for _, path := range paths {
		w.ask(host, path)
	}
	w.scrape()
	w.wantCounts("requests", host, map[string]string{"200": "6"})
}
