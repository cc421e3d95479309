package router_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/shared/dataplane/router"
)

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
