package router_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/dataplane/router"
)

// TestRouter_BoundsTheMemoryOfRequests sends eight requests whose answers begin and do not end. A small one counts for
// 61 KiB, and a header of 15 KiB for 30 KiB more.
func TestRouter_BoundsTheMemoryOfRequests(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", 15<<10)
	for name, row := range map[string]struct {
		limits         router.Limits
		request        string // a header of the requests
		answer         string // a header of the answers
		wantHeld       int
		wantOthers     string
		wantOtherAgent int
	}{
		"room for all": {limits: router.Limits{AgentMemory: 600 << 10}, wantHeld: 8, wantOtherAgent: 200},
		"of an agent": {
			limits: router.Limits{AgentMemory: 200 << 10}, wantHeld: 3, wantOthers: "agent_busy", wantOtherAgent: 200,
		},
		"of all": {
			limits: router.Limits{Memory: 100 << 10}, wantHeld: 1, wantOthers: "router_busy", wantOtherAgent: 503,
		},
		"large headers": {
			limits: router.Limits{AgentMemory: 400 << 10}, request: large, wantHeld: 4, wantOthers: "agent_busy",
			wantOtherAgent: 200,
		},
		"large answers": {
			limits: router.Limits{AgentMemory: 350 << 10}, answer: large, wantHeld: 3, wantOthers: "invalid_answer",
			wantOtherAgent: 200,
		},
		"large answers, of all": {
			limits: router.Limits{Memory: 120 << 10}, answer: large, wantHeld: 0, wantOthers: "invalid_answer",
			wantOtherAgent: 200,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newMemoryWorld(t, func(o *router.Options) { o.Limits = row.limits })
				release := make(chan struct{})
				host := hostname(w.start("a", func(w http.ResponseWriter, req *http.Request) {
					if req.URL.Path == "/hello" {
						return
					}
					w.Header().Set("X", row.answer)
					_ = http.NewResponseController(w).Flush()
					<-release
				}))
				other := hostname(w.start("other", func(http.ResponseWriter, *http.Request) {}))
				w.get(host, "/hello") // strangers have to wait
				var clients sync.WaitGroup
				others := make(chan string, 8)
				for range 8 {
					clients.Go(func() {
						_, body := w.get(host, "/", "X", row.request)
						others <- body
					})
					synctest.Wait()
				}
				if held := 8 - len(others); held != row.wantHeld {
					t.Errorf("%d requests are in flight, want %d", held, row.wantHeld)
				}
				for range len(others) {
					if got := <-others; !strings.Contains(got, row.wantOthers) {
						t.Errorf("a request beyond the limit got %s, want %s", got, row.wantOthers)
					}
				}
				if res, body := w.get(other, "/"); res.status != row.wantOtherAgent {
					t.Errorf("another agent's request got %d, want %d: %s", res.status, row.wantOtherAgent, body)
				}
				close(release)
				clients.Wait()
				synctest.Wait()
				if res, body := w.get(host, "/hello", "X", row.request); res.status != http.StatusOK {
					t.Errorf("a request after the others ended got %d: %s", res.status, body)
				}
			})
		})
	}
}
