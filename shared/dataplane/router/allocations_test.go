package router_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"agents.example/controlplane/shared/dataplane/router"
)

// TestRouter_SpendsNothingOnSleepWhileAnAgentIsReady compares the allocations of requests to an agent that requests
// wake with those of requests to one that never sleeps.
func TestRouter_SpendsNothingOnSleepWhileAnAgentIsReady(t *testing.T) {
	const requests = 2000
	w := newWorld(t, func(o *router.Options) { o.Waker = &alarm{} })
	allocations := func(wakes bool) float64 {
		a := w.start("a", func(http.ResponseWriter, *http.Request) {})
		e := w.Lookup(a.Namespace())
		e.Wakes = wakes
		w.set(a, e)
		send := func() {
			req := httptest.NewRequest(http.MethodGet, "/", nil)
			req.Host = hostname(a)
			req.Header.Set("Authorization", "x")
			res := httptest.NewRecorder()
			if w.router.ServeHTTP(res, req); res.Code != http.StatusOK {
				t.Fatalf("got %d, want 200", res.Code)
			}
		}
		for range 100 {
			send()
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range requests {
			send()
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / requests
	}
	never, sleeps := allocations(false), allocations(true)
	if sleeps > never+0.5 {
		t.Errorf("a request to an agent that may sleep makes %.2f allocations, and %.2f to another one", sleeps, never)
	}
}
