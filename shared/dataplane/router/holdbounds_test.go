package router_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/router"
)

// TestHold_EndsAfterAMinute: until then, the wake is asked for again and again.
func TestHold_EndsAfterAMinute(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, at *alarm, a agent.Agent) {
		send := func() later {
			return <-w.knock(a)
		}
		res := send()
		if res.status != http.StatusServiceUnavailable || !strings.Contains(res.body, "agent_waking") ||
			res.header.Get("Retry-After") != "2" || res.took < time.Minute || res.took > 61*time.Second {
			t.Errorf("got %d %s after %s, want 503 agent_waking after a minute", res.status, res.body, res.took)
		}
		if n := at.count(); n < 12 || n > 13 {
			t.Errorf("the wake was asked for %d times in a minute, want once in 5 s", n)
		}
		at.fail(errors.New("the notifier restarts"))
		got := w.knock(a)
		before := at.count()
		<-time.After(10 * time.Second)
		if n := at.count() - before; n < 8 || n > 11 {
			t.Errorf("wakes that fail were asked for %d times in 10 s, want once a second", n)
		}
		if failed := w.metric(`router_wakes_total{result="failed"}`); failed < 8 {
			t.Errorf("%v wakes are counted as failed", failed)
		}
		at.fail(nil)
		<-time.After(3 * time.Second)
		w.wake(a, fine)
		if res := <-got; res.status != http.StatusOK {
			t.Errorf("got %d, want 200", res.status)
		}
	})
}

// TestHold_EndsWhenNothingWakesTheAgent: its owner pauses it, or deletes it.
func TestHold_EndsWhenNothingWakesTheAgent(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		then  router.Endpoint
		retry string
	}{
		"paused":         {then: router.Endpoint{State: router.Stopped}},
		"deleted":        {then: router.Endpoint{}, retry: "5"},
		"sleeps no more": {then: router.Endpoint{State: router.NotReady}, retry: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asleep(t, func(w *world, _ *alarm, a agent.Agent) {
				got := w.knock(a)
				<-time.After(10 * time.Second)
				w.set(a, row.then)
				if res := <-got; res.status != http.StatusServiceUnavailable || res.took > 11*time.Second ||
					res.header.Get("Retry-After") != row.retry {
					t.Errorf("got %d after %s, Retry-After %q, want 503 then and %q", res.status, res.took,
						res.header.Get("Retry-After"), row.retry)
				}
			})
		})
	}
}

// TestHold_CountsFailuresOnly: an agent that sleeps is none, one that does not start in a minute is.
func TestHold_CountsFailuresOnly(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		for range 3 {
			w.get(hostname(a), "/", "Authorization", "x", "Accept", "text/html")
			w.get(hostname(a), "/health/ready")
		}
		counted := func(scraped string, code int) float64 {
			return w.valueOf(scraped, fmt.Sprintf(`http_requests_total{code="%d",host=%q}`, code, hostname(a)))
		}
		if got := counted(w.scrapeTwice(), 503); got > 0 {
			t.Errorf("%v requests to an agent that sleeps count as failures, want none", got)
		}
		w.get(hostname(a), "/")
		w.get(hostname(a), "/", "Authorization", "x")
		scraped := w.scrapeTwice()
		if refused, failed := counted(scraped, 401), counted(scraped, 503); refused != 1 || failed != 1 {
			t.Errorf("%v requests count as refused and %v as failed, want 1 and 1", refused, failed)
		}
	})
}

func TestHold_EndsWithItsClient(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		ctx, leave := context.WithCancel(w.t.Context())
		c, gone := w.client(), make(chan error, 1)
		req := w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x").WithContext(ctx)
		go func() {
			_, err := c.Do(req) //nolint:bodyclose // there is no answer
			gone <- err
		}()
		<-time.After(5 * time.Second)
		if held := w.metric("router_held_requests"); held != 1 {
			t.Errorf("%v requests are held, want 1", held)
		}
		leave()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the request ended with %v", err)
		}
		synctest.Wait()
		if held := w.metric("router_held_requests"); held != 0 {
			t.Errorf("%v requests are held after their client went away, want none", held)
		}
	})
}

func TestHold_IsBounded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limits                                    router.Limits
		wantSame, wantSibling, wantAny, wantAgain bool
	}{
		"by default":      {wantSame: true, wantSibling: true, wantAny: true, wantAgain: true},
		"an agent":        {limits: router.Limits{AgentHeld: 2}, wantSibling: true, wantAny: true, wantAgain: true},
		"an organization": {limits: router.Limits{OrganizationHeld: 2}, wantAny: true, wantAgain: true},
		"all":             {limits: router.Limits{Held: 3}, wantAny: true},
		// Each gets more only while it has less than is free.
		"few organizations": {limits: router.Limits{Held: 4, OrganizationHeld: 4}, wantAny: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world, at *alarm) {
				a, sibling, foreign := newAgent("a"), newAgent("b"), newAgent("c")
				for _, one := range []agent.Agent{a, sibling} {
					w.sleep(one)
				}
				w.set(foreign, router.Endpoint{State: router.NotReady, Wakes: true, Organization: "org_2"})
				send := func(to agent.Agent) <-chan later {
					got := w.knock(to)
					synctest.Wait()
					return got
				}
				first := []<-chan later{send(a), send(a)}
				for _, more := range []struct {
					to   agent.Agent
					held bool
				}{{a, row.wantSame}, {sibling, row.wantSibling}, {foreign, row.wantAny}, {foreign, row.wantAgain}} {
					got := send(more.to)
					<-time.After(time.Second) // strangers take turns
					if more.held {
						first = append(first, got)
					}
					if held := len(got) == 0; held != more.held {
						t.Errorf("a request to %s is held: %t, want %t", more.to.Slug, held, more.held)
					}
					if !more.held {
						if res := <-got; res.status != http.StatusServiceUnavailable ||
							res.header.Get("Retry-After") != "2" {
							t.Errorf("a request to %s got %d, want 503", more.to.Slug, res.status)
						}
					}
				}
				if n := at.count(); n != 3 { // also for requests that are not held: their clients come again
					t.Errorf("%d wakes, want one for each agent", n)
				}
				for _, one := range []agent.Agent{a, sibling, foreign} {
					w.wake(one, fine)
				}
				for _, got := range first {
					if res := <-got; res.status != http.StatusOK {
						t.Errorf("a held request got %d, want 200", res.status)
					}
				}
				if held := w.metric("router_held_requests"); held != 0 {
					t.Errorf("%v requests are held after all, want none", held)
				}
			}, func(o *router.Options) { o.Limits = row.limits })
		})
	}
}

// TestWakes_AskForAThousandAgentsInOrder: each of them is asked for, and 64 at a time.
func TestWakes_AskForAThousandAgentsInOrder(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		at.takes = time.Second / 4 // each agent looks for its address 40 times a second
		agents := make([]agent.Agent, 1000)
		answers := make([]<-chan later, len(agents))
		for i := range agents {
			agents[i] = newAgent("a")
			w.set(agents[i], router.Endpoint{State: router.NotReady, Wakes: true, Organization: fmt.Sprint("org_", i)})
			answers[i] = w.background(
				w.with(w.request(http.MethodGet, hostname(agents[i]), "/", nil), "Authorization", "x"))
			synctest.Wait()
		}
		<-time.After(10 * time.Second)
		place := map[string]int{}
		at.mu.Lock()
		for _, id := range at.asked {
			if _, again := place[id]; !again {
				place[id] = len(place)
			}
		}
		most := at.most
		at.mu.Unlock()
		for i, a := range agents {
			if at, asked := place[a.ID]; !asked || at-i > 64 || i-at > 64 {
				t.Fatalf("agent %d was asked for: %t, as number %d", i, asked, at)
			}
			w.wake(a, fine)
		}
		if most != 64 {
			t.Errorf("%d calls at a time, want 64", most)
		}
		for i, got := range answers {
			if res := <-got; res.status != http.StatusOK {
				t.Errorf("the request to agent %d got %d, want 200", i, res.status)
			}
		}
	})
}
