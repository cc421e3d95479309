package router_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/nettest"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane/router"
)

// occupied is an agent whose requests last until release, but those for /hello.
type occupied struct {
	agent.Agent
	begun   chan struct{}
	release chan struct{}
}

func (w *world) occupy(requests int) *occupied {
	w.t.Helper()
	o := &occupied{begun: make(chan struct{}, requests), release: make(chan struct{})}
	o.Agent = w.start("busy", func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hello" {
			return
		}
		o.begun <- struct{}{}
		<-o.release
		w.WriteHeader(http.StatusNoContent)
	})
	return o
}

func TestRouter_LimitsConcurrentRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits router.Limits
		room   int
	}{
		"agent_busy":  {limits: router.Limits{AgentRequests: 3}, room: 3},
		"router_busy": {limits: router.Limits{Requests: 1}, room: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(o *router.Options) { o.Limits = c.limits })
			busy := w.occupy(c.room)
			w.get(hostname(busy.Agent), "/hello") // strangers have to wait
			other := w.start("other", func(http.ResponseWriter, *http.Request) {})
			var clients sync.WaitGroup
			for range c.room {
				clients.Go(func() {
					if res, _ := w.get(hostname(busy.Agent), "/"); res.status != http.StatusNoContent {
						t.Errorf("a request within the limit got %d, want 204", res.status)
					}
				})
			}
			for range c.room {
				<-busy.begun
			}
			for range 4 { // refused requests take no place
				res, body := w.get(hostname(busy.Agent), "/")
				if res.status != 503 || res.header.Get("Retry-After") == "" || !strings.Contains(body, name) {
					t.Errorf("a request too many got %d %s, want 503 %s with Retry-After", res.status, body, name)
				}
			}
			want := http.StatusOK
			if name == "router_busy" {
				want = http.StatusServiceUnavailable
			}
			if res, _ := w.get(hostname(other), "/"); res.status != want {
				t.Errorf("another agent's request got %d, want %d", res.status, want)
			}
			close(busy.release)
			clients.Wait()
			if res, _ := w.get(hostname(busy.Agent), "/"); res.status != http.StatusNoContent {
				t.Errorf("a request after the others ended got %d, want 204", res.status)
			}
		})
	}
}

func TestRouter_CountsWebSocketsAgainstTheLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *router.Options) { o.Limits.AgentRequests = 1 })
	host := hostname(w.start("a", echo))
	c, _ := w.dialSocket(host)
	say(t, c, "hello")
	if res, _ := w.get(host, "/"); res.status != http.StatusServiceUnavailable {
		t.Errorf("a request next to the WebSocket got %d, want 503", res.status)
	}
	_ = c.Close(websocket.StatusNormalClosure, "")
	w.awaitCount(host, map[string]string{"101": "1", "503": "1"})
}

func TestRouter_LimitsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t, func(o *router.Options) { o.Limits.Connections = 1 })
		first := w.raw()
		first.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		first.status(200)
		if second := w.raw(); !second.status(http.StatusServiceUnavailable) {
			t.Error("the second connection stays open next to the first, want it closed")
		}
		_ = first.Close()
		synctest.Wait()
		third := w.raw()
		third.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		third.status(http.StatusOK)
	})
}

func TestRouter_EndsConnectionsThatSendNoHeader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 10 * time.Second
		w := newMemoryWorld(t, func(o *router.Options) { o.Timeouts.Header = limit })
		began, c := time.Now(), w.raw()
		c.send("GET / HTTP/1.1\r\nHost: ")
		answer, err := io.ReadAll(c)
		if err != nil || strings.Contains(string(answer), " 200 ") || time.Since(began) != limit {
			t.Errorf("a half header got %q, %v after %s, want the end of the connection after %s", answer, err,
				time.Since(began), limit)
		}
	})
}

// TestRouter_RefusesLargeHeaders: the client finds the answer, although it has sent more than the router reads.
func TestRouter_RefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(http.ResponseWriter, *http.Request) {})
	for _, row := range []struct {
		name, header string
		want         int
	}{
		{name: "15 KiB", header: "X: " + strings.Repeat("x", 15<<10) + "\r\n", want: 200},
		{name: "17 KiB", header: "X: " + strings.Repeat("x", 17<<10) + "\r\n", want: 431},
		{name: "80 KiB", header: "X: " + strings.Repeat("x", 80<<10) + "\r\n", want: 431},
		{name: "120 lines", header: strings.Repeat("X: y\r\n", 120), want: 200},
		{name: "130 lines", header: strings.Repeat("X: y\r\n", 130), want: 431},
	} {
		c := w.raw()
		for range 2 { // the second header counts alone
			c.send("GET / HTTP/1.1\r\nHost: " + hostname(a) + "\r\n" + row.header + "\r\n")
			if last := c.status(row.want); last != (row.want == 431) {
				t.Errorf("%s: the answer is the last of its connection: %t, want %t", row.name, last, !last)
			}
			if row.want == 431 {
				break
			}
		}
	}
}

// raw is a connection on which a test writes bytes.
type raw struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func (w *world) raw() *raw {
	w.t.Helper()
	c, err := w.dial(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Close() })
	return &raw{Conn: c, t: w.t, r: bufio.NewReader(c)}
}

func (c *raw) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		c.t.Fatal(err)
	}
}

// status reads an answer and checks its status.
func (c *raw) status(want int) (lastOfConnection bool) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != want {
		c.t.Errorf("got %d, %v, want %d", res.StatusCode, err, want)
	}
	return res.Close
}

// lookup is an Endpoints that computes its answers.
type lookup func(namespace string) router.Endpoint

func (l lookup) Lookup(namespace string) router.Endpoint { return l(namespace) }

// TestRouter_RepeatsARequestOnceIfThePodMoved: an address that refuses connections may be that of the previous pod.
func TestRouter_RepeatsARequestOnceIfThePodMoved(t *testing.T) {
	t.Parallel()
	gone := nettest.Refusing(t)
	a := newAgent("a")
	var requests atomic.Int64
	for _, row := range []struct {
		name, method, body string
		after              router.State
		moved, final       bool
		want               int
		wantRequests       int64
	}{
		{name: "moved", method: "GET", after: router.Ready, moved: true, want: 200, wantRequests: 1},
		{name: "same address", method: "GET", after: router.Ready, want: 502},
		{name: "not ready any more", method: "GET", after: router.NotReady, want: 503},
		{name: "stopped", method: "POST", after: router.Stopped, want: 503, final: true},
		{name: "gone", method: "GET", after: router.Unknown, want: 503},
		{name: "not idempotent", method: "POST", after: router.Ready, moved: true, want: 502},
		{name: "body", method: "GET", body: "x", after: router.Ready, moved: true, want: 502},
		{name: "body, not ready any more", method: "POST", body: "x", after: router.NotReady, want: 503},
	} {
		requests.Store(0)
		var alive netip.AddrPort
		calls := 0
		var mu sync.Mutex
		w := newWorld(t, func(o *router.Options) {
			o.Endpoints = lookup(func(string) router.Endpoint {
				mu.Lock()
				defer mu.Unlock()
				calls++
				e := router.Endpoint{State: router.Ready, Slug: "a", Addr: gone}
				if calls > 2 { // after the one for the state and the one for the first attempt
					e.State = row.after
					if row.moved {
						e.Addr = alive
					}
				}
				return e
			})
		})
		w.startAs(a, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
		alive = w.Lookup(a.Namespace()).Addr
		var body io.ReadCloser
		if row.body != "" {
			body = io.NopCloser(strings.NewReader(row.body))
		}
		res, _ := w.do(w.client(), w.request(row.method, hostname(a), "/", body))
		if res.status != row.want || requests.Load() != row.wantRequests {
			t.Errorf("%s: got %d, %d requests, want %d, %d", row.name, res.status, requests.Load(), row.want,
				row.wantRequests)
		}
		if retry := res.header.Get("Retry-After"); (retry != "") != (row.want == 503 && !row.final) {
			t.Errorf("%s: Retry-After = %q", row.name, retry)
		}
	}
}

// TestRouter_AnswersEveryRequestWhileAnAgentRestarts: a client gets 200, 502, or 503 with Retry-After, and no other.
func TestRouter_AnswersEveryRequestWhileAnAgentRestarts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	serve := func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, "done")
	}
	kill := w.startAs(a, serve)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	var good atomic.Int64
	for i := range 8 {
		clients.Go(func() {
			c := w.client()
			for ctx.Err() == nil {
				req := w.request(http.MethodGet, hostname(a), "/", nil)
				if i%2 == 0 { // with a length, so that the router may keep the connection
					req = w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("hello")))
					req.ContentLength = int64(len("hello"))
				}
				res, err := c.Do(req)
				if err != nil {
					t.Errorf("a request got no answer: %v", err)
					return
				}
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				retry := res.Header.Get("Retry-After") != ""
				switch {
				case res.StatusCode == http.StatusOK:
					good.Add(1)
				case res.StatusCode == http.StatusBadGateway, res.StatusCode == http.StatusServiceUnavailable && retry:
				default:
					t.Errorf("a request got %d, Retry-After %t, %v", res.StatusCode, retry, err)
				}
			}
		})
	}
	for range 10 {
		before := good.Load()
		for good.Load() < before+50 && !t.Failed() {
			<-time.After(time.Millisecond)
		}
		kill() // the cluster notices later
		w.set(a, router.Endpoint{State: router.NotReady})
		kill = w.startAs(a, serve)
	}
	stop()
	clients.Wait()
}

func TestRouter_DrainsWithoutLosingRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const delay = 10 * time.Second
		w := newMemoryWorld(t, func(o *router.Options) {
			o.Timeouts.DrainDelay, o.Timeouts.TunnelIdle = delay, time.Second
		})
		busy := w.occupy(2)
		release := sync.OnceFunc(func() { close(busy.release) })
		defer release()
		socket, _ := w.dialSocket(hostname(w.start("echo", echo)))
		say(t, socket, "hello")
		health := w.raw()
		health.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		health.status(200)
		slow := w.raw()
		slow.send("GET / HTTP/1.1\r\nHost: " + hostname(busy.Agent) + "\r\n\r\n")
		<-busy.begun
		w.stop()
		synctest.Wait()
		draining := w.raw()
		draining.send("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
		draining.status(http.StatusServiceUnavailable)
		late := w.raw() // the load balancer has not noticed yet
		late.send("GET / HTTP/1.1\r\nHost: " + hostname(busy.Agent) + "\r\n\r\n")
		<-busy.begun
		if _, _, err := socket.Read(t.Context()); err == nil {
			t.Error("the idle WebSocket stayed open")
		}
		<-time.After(delay)
		synctest.Wait()
		if c, err := w.dial(t.Context()); err == nil {
			_ = c.Close()
			t.Error("connections are accepted after the delay, want them refused")
		}
		release()
		slow.status(http.StatusNoContent)
		if !late.status(http.StatusNoContent) {
			t.Error("the connection stays open, want it closed, so that the next request goes to another replica")
		}
	})
}

func TestRouter_EndsWhatOutlastsTheDrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *router.Options) {
		o.Timeouts.Drain, o.Timeouts.TunnelIdle = 50*time.Millisecond, time.Hour
	})
	busy := w.occupy(1)
	defer close(busy.release)
	socket, _ := w.dialSocket(hostname(w.start("echo", echo)))
	say(t, socket, "hello")
	c := w.raw()
	c.send("GET / HTTP/1.1\r\nHost: " + hostname(busy.Agent) + "\r\n\r\n")
	<-busy.begun
	w.stop()
	select {
	case err := <-w.ended:
		if err == nil || !strings.Contains(err.Error(), "in flight") {
			t.Errorf("Serve = %v, want an error that names requests in flight", err)
		}
	case <-time.After(time.Minute):
		t.Error("the router goes on a minute after its drain")
	}
	w.ended <- nil
	if _, _, err := socket.Read(t.Context()); err == nil {
		t.Error("the WebSocket stayed open")
	}
}

func TestRouter_CountsByHostAndCode(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.start("a", func(w http.ResponseWriter, req *http.Request) {
		var code int
		_, _ = fmt.Sscanf(req.URL.Path, "/%d", &code)
		w.WriteHeader(code)
	})
	for _, code := range []string{"200", "200", "404", "500", "599", "987"} {
		w.get(hostname(a), "/"+code)
	}
	for i := range 3 {
		w.get(fmt.Sprintf("guess-%d.%s", i, domain), "/")
	}
	w.get(w.address, "/healthz")
	w.awaitCount(hostname(a), map[string]string{"200": "2", "404": "1", "500": "2", "900": "1"})
	w.awaitCount("", map[string]string{"404": "3"})
	metrics := w.scrape()
	if want := `http_request_duration_seconds_count{host="` + hostname(a) + `"} 6`; !strings.Contains(metrics, want) {
		t.Errorf("the metrics lack %s", want)
	}
	if strings.Contains(metrics, "guess") {
		t.Error("the metrics have the name of an unknown host")
	}
	w.set(a, router.Endpoint{State: router.NotReady})
	if !strings.Contains(w.scrape(), hostname(a)) {
		t.Error("the series of an agent that is not ready are gone")
	}
	w.set(a, router.Endpoint{})
	if strings.Contains(w.scrape(), hostname(a)) {
		t.Error("the series of an agent that is gone remain")
	}
	if res, _ := w.get(hostname(a), "/200"); res.status != http.StatusNotFound {
		t.Errorf("an agent that is gone: got %d, want 404", res.status)
	}
}
