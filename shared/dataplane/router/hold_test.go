package router_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// alarm is a Waker that records whom it was asked to wake.
type alarm struct {
	mu     sync.Mutex
	asked  []string
	failed error
	// takes is how long a call takes; busy and most count those at a time.
	takes      time.Duration
	busy, most int
}

// Wake implements router.Waker.
func (a *alarm) Wake(ctx context.Context, agentID string) error {
	a.mu.Lock()
	a.asked = append(a.asked, agentID)
	a.busy++
	a.most = max(a.most, a.busy)
	failed := a.failed
	a.mu.Unlock()
	defer func() { a.mu.Lock(); a.busy--; a.mu.Unlock() }()
	if a.takes > 0 {
		select {
		case <-time.After(a.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return failed
}

func (a *alarm) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed = err
}

// count returns how often the alarm was asked.
func (a *alarm) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.asked)
}

// sleep makes an agent one that has no pod and that requests wake.
func (w *world) sleep(a agent.Agent) {
	w.set(a, router.Endpoint{
		State: router.NotReady, Wakes: true, Organization: "org_1",
		Public: dataplane.PublicSetOf(dataplane.PublicPathLabels([]string{"/hooks/"})),
	})
}

// wake starts the pod of an agent that requests wake.
func (w *world) wake(a agent.Agent, h http.HandlerFunc) (kill func()) {
	kill = w.startAs(a, h)
	e := w.Lookup(a.Namespace())
	e.Wakes, e.Organization = true, "org_1"
	w.set(a, e)
	return kill
}

// bubble runs a test in virtual time, with a router that wakes agents.
func bubble(t *testing.T, test func(w *world, at *alarm), configure ...func(*router.Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		at := &alarm{}
		w := newMemoryWorld(t, append([]func(*router.Options){func(o *router.Options) { o.Waker = at }}, configure...)...)
		test(w, at)
	})
}

// metric returns the value of a time series.
func (w *world) metric(series string) float64 {
	w.t.Helper()
	res := httptest.NewRecorder()
	w.router.Metrics().ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	line := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\S+)$`).FindStringSubmatch(res.Body.String())
	if line == nil {
		return -1
	}
	value, err := strconv.ParseFloat(line[1], 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return value
}

// later is what a request in the background got.
type later struct {
	answer
	body string
	took time.Duration
}

// background sends a request and returns a channel with its answer.
func (w *world) background(req *http.Request) <-chan later {
	got, c := make(chan later, 1), w.client()
	began := time.Now()
	go func() {
		res, body := w.do(c, req)
		got <- later{res, body, time.Since(began)}
	}()
	return got
}

func (w *world) with(req *http.Request, header ...string) *http.Request {
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return req
}

func fine(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	fmt.Fprint(w, req.Method, " ", req.URL.Path, " ", len(body))
}

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
		"a link":           {path: "/handoff", header: []string{"Cookie", "agent_session=x"}, want: 503, wantHeader: "5"},
		"a logout":         {path: "/logout", header: []string{"Cookie", "agent_session=x"}, want: 503, wantHeader: "5"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world, at *alarm) {
				a := newAgent("a")
				w.sleep(a)
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
				asked := at.count()
				if (held == 1) != row.wantHeld || (asked > 0) != row.wantHeld || (res.took > 9*time.Second) != row.wantHeld {
					t.Errorf("%v requests were held, it took %s, %d wakes; want held: %t", held, res.took, asked, row.wantHeld)
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

// TestHold_KeepsNobodyWaitingWithoutAWaker: such an agent is one that is not ready.
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
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.sleep(a)
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
			`<meta http-equiv="refresh" content="2">`,
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

// TestHold_EndsAfterAMinute: until then, the wake is asked for again and again.
func TestHold_EndsAfterAMinute(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.sleep(a)
		send := func() later {
			return <-w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x"))
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
		got := w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x"))
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
			bubble(t, func(w *world, _ *alarm) {
				a := newAgent("a")
				w.sleep(a)
				got := w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x"))
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

// closedDoor is a front whose door is closed.
func closedDoor(w http.ResponseWriter, req *http.Request) {
	w.Header().Set(dataplane.HeaderDoor, "d1")
	w.Header().Set(dataplane.HeaderDoorTime, "12")
	if req.Body != http.NoBody {
		w.Header().Set("Connection", "close")
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}

// TestHold_SendsAgainWhatAClosedDoorRefused: with all of its body, to the next pod or to the same one.
func TestHold_SendsAgainWhatAClosedDoorRefused(t *testing.T) {
	t.Parallel()
	for _, moved := range []bool{true, false} {
		for method, size := range map[string]int{http.MethodGet: 0, http.MethodPost: 1 << 20} {
			t.Run(fmt.Sprint(method, ", another pod ", moved), func(t *testing.T) {
				t.Parallel()
				bubble(t, func(w *world, at *alarm) {
					a := newAgent("a")
					var open atomic.Bool
					var refused atomic.Int64
					kill := w.wake(a, func(res http.ResponseWriter, req *http.Request) {
						if open.Load() {
							fine(res, req)
							return
						}
						refused.Add(1)
						closedDoor(res, req)
					})
					var body io.ReadCloser
					if size > 0 {
						body = io.NopCloser(strings.NewReader(strings.Repeat("x", size)))
					}
					got := w.background(w.with(w.request(method, hostname(a), "/p", body), "Authorization", "x"))
					<-time.After(3100 * time.Millisecond) // while no attempt is under way
					if n := refused.Load(); n < 10 || n > 13 || at.count() != 1 {
						t.Errorf("the door refused %d times in 3 s, %d wakes; want once in 250 ms and 1", n, at.count())
					}
					if moved {
						w.sleep(a)
						kill()
						<-time.After(10 * time.Second)
						w.wake(a, fine)
					} else {
						open.Store(true)
					}
					res := <-got
					if want := fmt.Sprint(method, " /p ", size); res.status != http.StatusOK || res.body != want {
						t.Errorf("got %d %q, want 200 %q", res.status, res.body, want)
					}
					if res.header.Get(dataplane.HeaderDoor) != "" {
						t.Error("the client learns of the door")
					}
				})
			})
		}
	}
}

// TestHold_SendsNoBodyTwice: a front that has read a byte of it may have done something.
func TestHold_SendsNoBodyTwice(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		a := newAgent("a")
		var requests atomic.Int64
		w.wake(a, func(res http.ResponseWriter, req *http.Request) {
			requests.Add(1)
			_, _ = req.Body.Read(make([]byte, 1))
			closedDoor(res, req)
		})
		res := <-w.background(w.with(w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("{}"))),
			"Authorization", "x"))
		if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") != "1" || requests.Load() != 1 ||
			res.header.Get(dataplane.HeaderDoor) != "" {
			t.Errorf("got %d, Retry-After %q after %d requests, want 503, 1 after 1", res.status,
				res.header.Get("Retry-After"), requests.Load())
		}
	})
}

// TestHold_LeavesTheInterimAnswerToTheServer: the router asks the front for 100 Continue, and a client that did not
// must not get one.
func TestHold_LeavesTheInterimAnswerToTheServer(t *testing.T) {
	t.Parallel()
	for expects, want := range map[string]int{"": 0, "100-continue": 1} {
		bubble(t, func(w *world, _ *alarm) {
			a := newAgent("a")
			w.wake(a, func(res http.ResponseWriter, req *http.Request) {
				if req.Header.Get("Expect") != "100-continue" {
					t.Error("the front was not asked")
				}
				fine(res, req)
			})
			var interim atomic.Int64
			req := w.with(w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("{}"))))
			if expects != "" {
				req.Header.Set("Expect", expects)
			}
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
				Got1xxResponse: func(int, textproto.MIMEHeader) error { interim.Add(1); return nil },
			}))
			if res := <-w.background(req); res.status != http.StatusOK || interim.Load() != int64(want) {
				t.Errorf("Expect %q: got %d and %d interim answers, want 200 and %d", expects, res.status,
					interim.Load(), want)
			}
		})
	}
}

// TestHold_HidesTheDoorFromAllButItsPath: a program of a tenant may send such headers, too.
func TestHold_HidesTheDoorFromAllButItsPath(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		host := hostname(w.start("a", func(res http.ResponseWriter, _ *http.Request) {
			res.Header().Set(dataplane.HeaderDoor, "d1")
			res.Header().Set(dataplane.HeaderDoorTime, "12")
		}))
		for path, want := range map[string]string{"/": "", "/health/ready": "", dataplane.PathDoor: "d1 12"} {
			res, _ := w.get(host, path)
			got := res.header.Get(dataplane.HeaderDoor) + " " + res.header.Get(dataplane.HeaderDoorTime)
			if strings.TrimSpace(got) != want {
				t.Errorf("%s: the door is %q, want %q", path, got, want)
			}
		}
	})
}

// TestHold_WaitsForAPodThatJustWent: its address is still known, or its successor's is.
func TestHold_WaitsForAPodThatJustWent(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.wake(a, fine)() // and is killed
		got := w.background(w.with(w.request(http.MethodPost, hostname(a), "/p", io.NopCloser(strings.NewReader("{}"))),
			"Authorization", "x"))
		anonymous := w.background(w.request(http.MethodGet, hostname(a), "/", nil))
		<-time.After(2 * time.Second)
		w.sleep(a)
		<-time.After(10 * time.Second)
		w.wake(a, fine)
		if res := <-got; res.status != http.StatusOK || res.body != "POST /p 2" || at.count() == 0 {
			t.Errorf("got %d %q after %d wakes, want 200", res.status, res.body, at.count())
		}
		if res := <-anonymous; res.status != http.StatusUnauthorized || res.took > time.Second {
			t.Errorf("without a credential: got %d after %s, want 401", res.status, res.took)
		}
	})
}

func TestHold_OpensWebSockets(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, at *alarm) {
		a := newAgent("a")
		w.sleep(a)
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
	bubble(t, func(w *world, _ *alarm) {
		a := newAgent("a")
		w.sleep(a)
		got := w.background(w.with(w.request(http.MethodGet, hostname(a), "/", nil), "Authorization", "x"))
		<-time.After(30 * time.Second)
		w.wake(a, func(http.ResponseWriter, *http.Request) { <-time.After(2 * time.Second) })
		<-got
		synctest.Wait()
		if took := w.metric(`http_request_duration_seconds_sum{host="` + hostname(a) + `"}`); took < 2 || took > 2.5 {
			t.Errorf("the request counts as one of %v s, want 2", took)
		}
	})
}

func TestHold_EndsWithItsClient(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world, _ *alarm) {
		a := newAgent("a")
		w.sleep(a)
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
		<-gone
		synctest.Wait()
		if held := w.metric("router_held_requests"); held != 0 {
			t.Errorf("%v requests are held after their client went away, want none", held)
		}
	})
}

func TestHold_IsBounded(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		limits                         router.Limits
		wantSame, wantSibling, wantAny bool
	}{
		"by default":      {wantSame: true, wantSibling: true, wantAny: true},
		"an agent":        {limits: router.Limits{AgentHeld: 2}, wantSibling: true, wantAny: true},
		"an organization": {limits: router.Limits{OrganizationHeld: 2}, wantAny: true},
		"all":             {limits: router.Limits{Held: 2}},
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
					got := w.background(w.with(w.request(http.MethodGet, hostname(to), "/", nil), "Authorization", "x"))
					synctest.Wait()
					return got
				}
				first := []<-chan later{send(a), send(a)}
				for _, more := range []struct {
					to   agent.Agent
					held bool
				}{{a, row.wantSame}, {sibling, row.wantSibling}, {foreign, row.wantAny}} {
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
		at.takes = time.Second
		agents := make([]agent.Agent, 1000)
		answers := make([]<-chan later, len(agents))
		for i := range agents {
			agents[i] = newAgent("a")
			w.set(agents[i], router.Endpoint{State: router.NotReady, Wakes: true, Organization: fmt.Sprint("org_", i)})
			answers[i] = w.background(
				w.with(w.request(http.MethodGet, hostname(agents[i]), "/", nil), "Authorization", "x"))
			synctest.Wait()
		}
		<-time.After(40 * time.Second)
		place := map[string]int{}
		at.mu.Lock()
		for i, id := range at.asked {
			if _, again := place[id]; !again {
				place[id] = len(place)
			}
			_ = i
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
