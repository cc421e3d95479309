package router_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/dataplane"

	"agents.example/controlplane/shared/agent"
)

// TestHold_WaitsForWhoMayWake sends requests to an agent that sleeps, and starts its pod 10 s later.
func TestHold_WaitsForWhoMayWake(t *testing.T) {
	t.Parallel()
	https := []string{"X-Forwarded-For", "203.0.113.7,192.0.2.1", "X-Forwarded-Proto", "https"}
	for name, row := range map[string]struct {
		method, path string
		header       []string
		body         string
		want         int
		wantHeld     bool
		wantBody     string // a part
		wantHeader   string // WWW-Authenticate or Retry-After
	}{
		"a password": {
			header: []string{"Authorization", "Basic eA=="}, want: 200, wantHeld: true, wantBody: "GET / 0",
		},
		"a key and a body": {
			method: "POST", path: "/v1/chat/completions", header: []string{"Authorization", "Bearer x"}, body: "{}",
			want: 200, wantHeld: true, wantBody: "POST /v1/chat/completions 2",
		},
		"a session": {header: []string{"Cookie", "a=b; agent_session=x"}, want: 200, wantHeld: true},
		"a session over HTTPS": {
			header: append([]string{"Cookie", "__Host-agent_session=x"}, https...), want: 200, wantHeld: true,
		},
		"a public path": {method: "POST", path: "/hooks/telegram?a=b", body: "{}", want: 200, wantHeld: true},

		"nothing":        {want: 401, wantBody: "user name and password", wantHeader: `Basic realm="agent", charset="UTF-8"`},
		"another cookie": {header: []string{"Cookie", "session=x"}, want: 401},
		"the cookie of HTTP over HTTPS": {
			header: append([]string{"Cookie", "agent_session=x"}, https...), want: 401,
		},
		"the cookie of HTTPS over HTTP": {header: []string{"Cookie", "__Host-agent_session=x"}, want: 401},
		"nothing for the API": {
			method: "POST", path: "/v1/models", body: "{}", want: 401, wantHeader: `Bearer realm="agent"`,
			wantBody: `"type":"authentication_error"`,
		},
		"an odd public path": {path: "/hooks/../admin", want: 401},

		"the front's health": {
			path: "/health/ready", header: []string{"Authorization", "x"}, want: 503, wantHeader: "5",
			wantBody: "agent_not_ready",
		},
		"the front's door": {path: "/health/door", header: []string{"Authorization", "x"}, want: 503, wantHeader: "5"},
		"the check":        {path: "/auth/check", header: []string{"Authorization", "x"}, want: 503, wantHeader: "5"},
		"a link": {
			path: "/handoff", header: []string{"Cookie", "agent_session=x"}, want: 503, wantHeader: "5",
		},
		"a logout": {
			path: "/logout", header: []string{"Cookie", "agent_session=x"}, want: 503, wantHeader: "5",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asleep(t, func(w *world, at *alarm, a agent.Agent) {
				var body io.ReadCloser
				if row.body != "" {
					body = io.NopCloser(strings.NewReader(row.body))
				}
				path := row.path
				if path == "" {
					path = "/"
				}
				method := row.method
				if method == "" {
					method = http.MethodGet
				}
				got := w.background(w.with(w.request(method, hostname(a), path, body), row.header...))
				<-time.After(10 * time.Second)
				held := w.metric("router_held_requests")
				w.wake(a, fine)
				res := <-got
				if res.status != row.want || !strings.Contains(res.body, row.wantBody) {
					t.Errorf("got %d %q, want %d with %q", res.status, res.body, row.want, row.wantBody)
				}
				header := res.header.Get("WWW-Authenticate") + res.header.Get("Retry-After")
				if row.wantHeader != "" && header != row.wantHeader {
					t.Errorf("WWW-Authenticate or Retry-After = %q, want %q", header, row.wantHeader)
				}
				asked, waited := at.count(), res.took > 9*time.Second
				if (held == 1) != row.wantHeld || (asked > 0) != row.wantHeld || waited != row.wantHeld {
					t.Errorf("%v requests were held, it took %s, %d wakes; want held: %t", held, res.took, asked,
						row.wantHeld)
				}
				if asked > 0 && at.asked[0] != a.ID {
					t.Errorf("%s was woken, want %s", at.asked[0], a.ID)
				}
				if left := w.metric("router_held_requests"); left != 0 {
					t.Errorf("%v requests are held after the answer, want none", left)
				}
			})
		})
	}
}

// TestHold_KeepsNoRequestWithoutAWaker: such an agent is one that is not ready.
func TestHold_KeepsNoRequestWithoutAWaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		a := newAgent("a")
		w.sleep(a)
		for _, header := range [][]string{{"Authorization", "x"}, nil} {
			if res, body := w.get(hostname(a), "/", header...); res.status != http.StatusServiceUnavailable ||
				res.header.Get("Retry-After") != "5" || !strings.Contains(body, "agent_not_ready") {
				t.Errorf("got %d %s, want 503 agent_not_ready", res.status, body)
			}
		}
		w.wake(a, closedDoor)
		if res, body := w.get(hostname(a), "/", "Authorization", "x"); res.status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "agent_not_ready") || res.header.Get(dataplane.HeaderDoor) != "" {
			t.Errorf("a closed door: got %d %s, want 503 agent_not_ready", res.status, body)
		}
	})
}

// TestHold_ShowsABrowserAPage: a person should not look at an empty tab for the time that a start takes.
func TestHold_ShowsABrowserAPage(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, at *alarm, a agent.Agent) {
		open := func() later {
			return <-w.background(w.with(w.request(http.MethodGet, hostname(a), "/chat", nil),
				"Authorization", "x", "Accept", "text/html"))
		}
		res := open()
		if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") != "2" {
			t.Errorf("got %d, Retry-After %q, want 503, 2", res.status, res.header.Get("Retry-After"))
		}
		if res.took < time.Second || res.took > 1100*time.Millisecond {
			t.Errorf("the page took %s, want a second", res.took)
		}
		for _, want := range []string{
			"<title>The agent is waking up</title>", "<h1>The agent is waking up</h1>",
			`<meta http-equiv="refresh" content="2">`, "loads again by itself.",
		} {
			if !strings.Contains(res.body, want) || strings.Contains(res.body, "<script") {
				t.Errorf("the page %s lacks %s, or has a script", res.body, want)
			}
		}
		if at.count() != 1 {
			t.Errorf("%d wakes, want 1", at.count())
		}
		<-time.After(2 * time.Second)
		if res := open(); res.status != http.StatusServiceUnavailable || at.count() != 1 {
			t.Errorf("the second page: got %d after %d wakes, want 503 after 1", res.status, at.count())
		}
		go func() {
			<-time.After(500 * time.Millisecond)
			w.wake(a, fine)
		}()
		if res := open(); res.status != http.StatusOK || res.took > time.Second {
			t.Errorf("a page of an agent that is ready in half a second: got %d after %s", res.status, res.took)
		}
	})
}

func TestHold_OpensWebSockets(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, at *alarm, a agent.Agent) {
		go func() {
			<-time.After(20 * time.Second)
			w.wake(a, echo)
		}()
		c, _ := w.dialSocket(hostname(a), "Authorization", "x")
		say(w.t, c, "hello")
		if at.count() == 0 {
			t.Error("the agent was not woken")
		}
		if took := w.metric(`http_request_duration_seconds_sum{host="` + hostname(a) + `"}`); took > 1 {
			t.Errorf("the WebSocket counts as one that took %v s to open, want none of the time of the start", took)
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	})
}

// TestHold_CountsNoDuration: the time of a start says nothing about an agent's answers.
func TestHold_CountsNoDuration(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		got := w.knock(a)
		<-time.After(30 * time.Second)
		w.wake(a, func(http.ResponseWriter, *http.Request) { <-time.After(2 * time.Second) })
		<-got
		synctest.Wait()
		if took := w.metric(`http_request_duration_seconds_sum{host="` + hostname(a) + `"}`); took < 2 || took > 2.5 {
			t.Errorf("the request counts as one of %v s, want 2", took)
		}
	})
}

// TestHold_AsksImmediatelyForAnAgentThatSleepsAgain: how long ago it was woken before does not matter.
func TestHold_AsksImmediatelyForAnAgentThatSleepsAgain(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		for n := range 3 {
			w.sleep(a)
			got := w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "Basic eA=="))
			<-time.After(time.Second)
			if asked := at.count(); asked != n+1 {
				t.Errorf("%d wakes a second after request %d", asked, n+1)
			}
			w.wake(a, fine)
			if res := <-got; res.status != http.StatusOK {
				t.Errorf("got %d", res.status)
			}
		}
	})
}
