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

// TestRouter_LeavesRoomForOtherAgents: the clients of a few agents, each agent within its limits, do not take all
// requests, or all memory, of the others.
func TestRouter_LeavesRoomForOtherAgents(t *testing.T) {
	t.Parallel()
	const each, agents = 8, 3
	const request = 60<<10 + 512 // of memory
	for name, limits := range map[string]router.Limits{
		"requests": {AgentRequests: each, Requests: each * agents},
		"memory":   {AgentMemory: each * request, Memory: each * agents * request},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *router.Options) { o.Limits = limits })
			victim := w.start("victim", func(http.ResponseWriter, *http.Request) {})
			taken := 0
			for range agents {
				n, end := w.fill(each)
				defer end()
				taken += n
			}
			if taken < each*agents/2 {
				t.Errorf("the other agents got %d requests, want most of %d", taken, each*agents)
			}
			if res, body := w.get(hostname(victim), "/"); res.status != http.StatusOK {
				t.Errorf("an agent's first request next to %d of others got %d %s, want 200", taken, res.status, body)
			}
		})
	}
}

// fill sends requests to an agent that answers none before the end, and returns how many of them it got.
func (w *world) fill(requests int) (taken int, end func()) {
	w.t.Helper()
	o := w.occupy(requests)
	w.get(hostname(o.Agent), "/hello") // strangers have to wait
	var open []<-chan later
	for range requests {
		got := w.background(w.request(http.MethodGet, hostname(o.Agent), "/", nil))
		select {
		case <-o.begun:
			open = append(open, got)
		case <-got: // it was refused
		}
	}
	return len(open), func() {
		close(o.release)
		for _, got := range open {
			<-got
		}
	}
}
