package router_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/dataplane/router"
)

// gate is an agent that accepts requests with a credential, and counts the others.
func gate(refused *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Authorization") == "" && req.URL.Path != "/health/ready" {
			refused.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// from returns the headers that Google's load balancer sends for a client.
func from(address string) []string {
	return []string{"X-Forwarded-For", "198.51.100.1, " + address + ",192.0.2.1", "X-Forwarded-Proto", "https"}
}

// TestStrangers_GetFewTurnsAndDelayNoClient floods an agent from 200 addresses without a credential.
func TestStrangers_GetFewTurnsAndDelayNoClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const lasts = 4 * time.Second
		w := newMemoryWorld(t)
		var refused atomic.Int64
		host := hostname(w.start("a", gate(&refused)))
		client := append(from("203.0.113.7"), "Authorization", "x")
		if res, _ := w.get(host, "/", client...); res.status != http.StatusOK {
			t.Fatalf("a client's first request got %d, want 200", res.status)
		}
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		var others sync.WaitGroup
		var answers [600]atomic.Int64
		for i := range 200 {
			others.Go(func() {
				for ctx.Err() == nil {
					path := "/"
					if i%2 == 0 {
						path = "/health/ready" // which says nothing about the client
					}
					res, _ := w.get(host, path, from(fmt.Sprintf("2001:db8:%x::1", i))...)
					answers[res.status].Add(1)
				}
			})
		}
		for ctx.Err() == nil {
			began := time.Now()
			if res, body := w.get(host, "/", client...); res.status != http.StatusOK || time.Since(began) > 0 {
				t.Errorf("a client got %d after %s, want 200 immediately: %s", res.status, time.Since(began), body)
			}
			<-time.After(50 * time.Millisecond)
		}
		others.Wait()
		served := answers[401].Load() + answers[200].Load()
		if most := int64(6 * 100); served > most || served < most/2 { // strangers go on for up to 2 s
			t.Errorf("the agent got %d requests of strangers in %s, want about 100 a second", served, lasts)
		}
		if got := answers[503].Load(); got == 0 || got > 200*(int64(lasts/time.Second)+1) {
			t.Errorf("strangers were refused %d times, want at most once a second each", got)
		}
	})
}

// TestStrangers_ComeOneAfterTheOther has 200 strangers who ask together.
func TestStrangers_ComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		var refused atomic.Int64
		host := hostname(w.start("a", gate(&refused)))
		var strangers sync.WaitGroup
		for i := range 200 {
			strangers.Go(func() { w.get(host, "/", from(fmt.Sprintf("2001:db8:%x::1", i))...) })
		}
		synctest.Wait()
		if got := refused.Load(); got != 2 {
			t.Errorf("the agent got %d requests together, want 2", got)
		}
		strangers.Wait()
		if got := refused.Load(); got < 100 {
			t.Errorf("the agent got %d requests in all, want at least 100 in two seconds", got)
		}
	})
}

// TestStrangers_OneAddressLeavesTurnsToOthers: a client that the agent does not know yet waits for a turn at most.
func TestStrangers_OneAddressLeavesTurnsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		var refused atomic.Int64
		host := hostname(w.start("a", gate(&refused)))
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		var others sync.WaitGroup
		for i := range 200 {
			others.Go(func() {
				for ctx.Err() == nil { // addresses of one network
					w.get(host, "/", from(fmt.Sprintf("2001:db8::%x", i))...)
				}
			})
		}
		<-time.After(time.Second)
		for i := range 20 {
			began := time.Now()
			res, _ := w.get(host, "/", append(from(fmt.Sprint("203.0.113.", i)), "Authorization", "x")...)
			if took := time.Since(began); res.status != http.StatusOK || took > 200*time.Millisecond {
				t.Errorf("a new client got %d after %s, want 200 in its turn", res.status, took)
			}
		}
		others.Wait()
	})
}

// TestStrangers_LeaveRoomToWaitForOtherAgents: the strangers of few agents do not take all places in which requests
// wait for their turn.
func TestStrangers_LeaveRoomToWaitForOtherAgents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const places, flooded = 32, 3
		w := newMemoryWorld(t, func(o *router.Options) { o.Limits.Requests = 4 * places })
		var refused atomic.Int64
		var strangers sync.WaitGroup
		for i := range flooded {
			host := hostname(w.start(fmt.Sprint("flooded-", i), gate(&refused)))
			for j := range places {
				strangers.Go(func() { w.get(host, "/", from(fmt.Sprintf("2001:db8:%x::1", j))...) })
			}
			synctest.Wait()
		}
		host := hostname(w.start("victim", gate(&refused)))
		for i := range 3 { // the last one has to wait
			strangers.Go(func() {
				res, body := w.get(host, "/", append(from(fmt.Sprint("203.0.113.", i)), "Authorization", "x")...)
				if res.status != http.StatusOK {
					t.Errorf("a stranger of another agent got %d, want 200 in its turn: %s", res.status, body)
				}
			})
		}
		strangers.Wait()
	})
}

// TestStrangers_BecomeClientsWithTheBeginningOfAnAnswer: an answer that does not end shows that the agent accepts the
// client, too.
func TestStrangers_BecomeClientsWithTheBeginningOfAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		release := make(chan struct{})
		host := hostname(w.start("a", func(w http.ResponseWriter, req *http.Request) {
			_ = http.NewResponseController(w).Flush()
			<-release
		}))
		var clients sync.WaitGroup
		began := time.Now()
		for range 200 { // more than strangers may have in flight
			c := w.raw()
			c.send("GET / HTTP/1.1\r\nHost: " + host + "\r\n" +
				"X-Forwarded-For: 203.0.113.7, 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\r\n")
			clients.Go(func() {
				line, err := c.r.ReadString('\n')
				if err != nil || !strings.Contains(line, "200") {
					t.Errorf("a stream got %q, %v, want 200", line, err)
				}
			})
		}
		clients.Wait()
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("the streams began after %s, want that they wait for the first one at most", took)
		}
		close(release)
	})
}

// publicGate is an agent that answers anyone, also with WebSockets, and says so as its front does.
func publicGate(w http.ResponseWriter, req *http.Request) {
	w.Header().Set(dataplane.HeaderPublic, "1")
	if req.Header.Get("Upgrade") != "" {
		echo(w, req)
	}
}

// TestStrangers_StayStrangersOnPublicPaths: whoever requests what needs no credential gets no more than a stranger.
func TestStrangers_StayStrangersOnPublicPaths(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		host := hostname(w.start("a", publicGate))
		c, header := w.dialSocket(host, from("203.0.113.7")...)
		if header[dataplane.HeaderPublic] != nil {
			t.Error("a WebSocket's client got the header for the router")
		}
		if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
			t.Errorf("Close = %v", err)
		}
		began := time.Now()
		for range 40 { // 2 in each tenth of a second
			res, _ := w.get(host, "/hooks/x", from("203.0.113.7")...)
			if res.status != http.StatusOK || res.header[dataplane.HeaderPublic] != nil {
				t.Fatalf("status %d, header %v; want 200 without the header for the router", res.status, res.header)
			}
		}
		if took := time.Since(began); took < 1800*time.Millisecond {
			t.Errorf("40 requests of a stranger took %s, want that each waits for its turn", took)
		}
	})
}

// TestStrangers_OpenWebSocketsLeaveTurnsToOthers opens more of them than strangers may have unanswered requests.
func TestStrangers_OpenWebSocketsLeaveTurnsToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	host := hostname(w.start("a", publicGate))
	for i := range 70 {
		w.dialSocket(host, from(fmt.Sprint("198.51.100.", i))...)
	}
	if res, body := w.get(host, "/hooks/x", from("203.0.113.7")...); res.status != http.StatusOK {
		t.Errorf("another stranger got %d, want 200: %s", res.status, body)
	}
}
