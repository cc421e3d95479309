package router_test

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/nettest"

	"agents.example/controlplane/shared/dataplane/router"
)

// TestRouter_AnnouncesTheEndOfAConnection: a connection either serves the request that follows the body, or ends after
// an answer that says so. No part of a body is a request.
func TestRouter_AnnouncesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	const (
		small = len("work")
		large = 1 << 20 // more than net/http reads to save a connection
		// linger is less than the 500 ms for which net/http keeps a connection with an unread body.
		linger = 400 * time.Millisecond
	)
	for name, row := range map[string]struct {
		length   int // of the body
		header   string
		withheld bool             // the client sends the body after it has the answer
		agent    http.HandlerFunc // nil is an agent that cannot be reached
		state    router.State     // 0 is Ready
		want     int
		last     bool
	}{
		"read":                      {length: small, agent: readAll, want: 200},
		"large, read":               {length: large, agent: readAll, want: 200},
		"early":                     {length: small, withheld: true, agent: hangUp, want: 401, last: true},
		"early, large":              {length: large, withheld: true, agent: hangUp, want: 401, last: true},
		"unreachable":               {length: small, want: 502, last: true},
		"unreachable, large":        {length: large, want: 502, last: true},
		"unreachable, withheld":     {length: large, withheld: true, want: 502, last: true},
		"unreachable, 100-continue": {length: small, header: "Expect: 100-continue\r\n", want: 502, last: true},
		"unreachable, no body":      {want: 502},
		"not ready":                 {length: small, state: router.NotReady, want: 503, last: true},
		"not ready, withheld":       {length: small, withheld: true, state: router.NotReady, want: 503, last: true},
		"not ready, no body":        {state: router.NotReady, want: 503},
		"not ready, large":          {length: large, state: router.NotReady, want: 503, last: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := w.start("other", readAll)
			a := newAgent("a")
			if row.agent != nil {
				w.startAs(a, row.agent)
			} else {
				w.ready(a, nettest.Refusing(t))
			}
			if row.state != router.Unknown {
				w.set(a, router.Endpoint{State: row.state})
			}
			next := "GET /next HTTP/1.1\r\nHost: " + hostname(other) + "\r\n\r\n"
			body := strings.Repeat(next, row.length/len(next)+1)[:row.length]
			c := w.raw()
			_ = c.SetDeadline(time.Now().Add(patience))
			began := time.Now()
			c.send("POST / HTTP/1.1\r\nHost: " + hostname(a) + "\r\n" + row.header +
				"Content-Length: " + strconv.Itoa(row.length) + "\r\n\r\n")
			if !row.withheld {
				c.send(body)
			}
			if last := c.status(row.want); last != row.last {
				t.Errorf("the answer says that it is the last of its connection: %t, want %t", last, row.last)
			}
			if row.withheld {
				_, _ = io.WriteString(c, body) // the router may have closed
			}
			if !row.last {
				c.send(next)
				c.status(http.StatusOK)
				return
			}
			if after, err := io.ReadAll(c.r); len(after) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after its last answer, the connection gives %q, %v, want its end", after, err)
			}
			// A client that is still sending must find the answer before a reset of the connection.
			if row.length < large {
				return
			}
			for err := error(nil); err == nil; <-time.After(10 * time.Millisecond) {
				_, err = c.Write([]byte("x"))
			}
			if took := time.Since(began); took < linger {
				t.Errorf("the connection was reset after %s, want at least %s", took, linger)
			}
		})
	}
}

// TestRouter_LosesNoRequestToAnUnreachableAgent sends POSTs, which clients may not repeat, on used connections.
func TestRouter_LosesNoRequestToAnUnreachableAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	end := w.startAs(a, readAll)
	w.get(hostname(a), "/") // a stranger has to wait
	end()
	w.ready(a, nettest.Refusing(t))
	c := w.client()
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 100 {
				req := w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("work")))
				req.ContentLength = int64(len("work"))
				res, err := c.Do(req)
				if err != nil {
					t.Errorf("a request got no answer: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if res.StatusCode != http.StatusBadGateway {
					t.Errorf("a request got %d, want 502", res.StatusCode)
				}
			}
		})
	}
	clients.Wait()
}

// TestRouter_KeepsAnHTTP2ConnectionWhenABodyIsUnread: each request has its own stream, and others share the connection.
func TestRouter_KeepsAnHTTP2ConnectionWhenABodyIsUnread(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := newAgent("a")
	w.ready(a, nettest.Refusing(t))
	c := h2(w.client())
	first := ""
	for range 3 {
		req := w.request(http.MethodPost, hostname(a), "/", io.NopCloser(strings.NewReader("work")))
		var conn string
		req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
			GotConn: func(got httptrace.GotConnInfo) { conn = got.Conn.LocalAddr().String() },
		}))
		if res, _ := w.do(c, req); res.status != http.StatusBadGateway {
			t.Errorf("got %d, want 502", res.status)
		}
		if first = cmp.Or(first, conn); conn != first {
			t.Errorf("a request came from %s, want the connection of the first, %s", conn, first)
		}
	}
}

func readAll(_ http.ResponseWriter, req *http.Request) { _, _ = io.Copy(io.Discard, req.Body) }

// hangUp answers before it has the body.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = c.Close()
}
