package router_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// recorder is an agent that keeps the bytes of every connection, and answers each request that it can read.
type recorder struct {
	mu       sync.Mutex
	bytes    strings.Builder
	requests []*http.Request
}

// Write implements io.Writer.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes.Write(b)
}

func (r *recorder) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	reader := bufio.NewReader(io.TeeReader(c, r))
	for {
		req, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		r.mu.Lock()
		r.requests = append(r.requests, req)
		r.mu.Unlock()
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
			return
		}
	}
}

// TestRouter_PassesAtMostOneWellFormedRequest sends requests that proxies and servers have read differently. {} stands
// for the agent's hostname.
func TestRouter_PassesAtMostOneWellFormedRequest(t *testing.T) {
	t.Parallel()
	const (
		post     = "POST / HTTP/1.1\r\nHost: {}\r\n"
		chunks   = "Transfer-Encoding: chunked\r\n\r\n"
		last     = "0\r\n\r\n"
		smuggled = "GET /smuggled HTTP/1.1\r\nHost: {}\r\n\r\n"
		end      = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	)
	for name, sent := range map[string]string{
		"length and chunks":  post + "Content-Length: 6\r\n" + chunks + last + smuggled,
		"chunks and length":  post + "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n\r\n" + last + smuggled,
		"two lengths":        post + "Content-Length: 0\r\nContent-Length: 44\r\n\r\n" + smuggled,
		"list of lengths":    post + "Content-Length: 0, 44\r\n\r\n" + smuggled,
		"signed length":      post + "Content-Length: +" + last + smuggled,
		"hexadecimal length": post + "Content-Length: 0x" + last + smuggled,
		"negative length":    post + "Content-Length: -1\r\n\r\n" + smuggled,
		"folded length":      post + "X: y\r\n Content-Length: 44\r\n\r\n",
		"folded": post + "Content-Length: 4\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" +
			last + smuggled,
		"space before colon": post + "Transfer-Encoding : chunked\r\nContent-Length: 4\r\n\r\n" + last + smuggled,
		"unknown encoding":   post + "Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n" + last + smuggled,
		"two encodings":      post + "Transfer-Encoding: identity\r\n" + chunks + last + smuggled,
		"tab": post + "Content-Length: 4\r\nTransfer-Encoding: \x0bchunked\r\n\r\n" +
			last + smuggled,
		"bare LF in the header":  "POST / HTTP/1.1\nHost: {}\nContent-Length: 44\n\n" + smuggled,
		"bare CR in the header":  post + "X: y\rContent-Length: 44\r\n\r\n" + smuggled,
		"NUL in the header":      post + "X: y\x00\r\nContent-Length: 44\r\n\r\n" + smuggled,
		"LF in chunk extension":  post + chunks + "2;\nxx\r\n4c\r\n" + last + smuggled,
		"chunk extension":        post + chunks + "2;a=b\r\nxx\r\n" + last,
		"quoted chunk extension": post + chunks + "2;a=\"\r\nxx\"\r\n" + last,
		"negative chunk":         post + chunks + "-1\r\nxx\r\n" + last,
		"chunk without its end":  post + chunks + "2\r\nxxxx\r\n" + last,
		"huge chunk":             post + chunks + "ffffffffffffffff2\r\nxx\r\n" + last,
		"trailer with a length":  post + "Trailer: Content-Length\r\n" + chunks + "0\r\nContent-Length: 9\r\n\r\n",
		"two hosts":              "GET / HTTP/1.1\r\nHost: {}\r\nHost: evil.example\r\n\r\n",
		"host in the URI":        "GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\n\r\n",
		"user in the URI":        "GET http://admin:secret@{}/ HTTP/1.1\r\nHost: {}\r\n\r\n",
		"space in the host":      "GET / HTTP/1.1\r\nHost: {} \r\n x\r\n\r\n",
		"LF in the path":         "GET /\nsmuggled HTTP/1.1\r\nHost: {}\r\n\r\n",
		"CONNECT":                "CONNECT {}:443 HTTP/1.1\r\nHost: {}\r\n\r\n" + smuggled,
		"HTTP/1.0 and chunks":    "POST / HTTP/1.0\r\nHost: {}\r\n" + chunks + last + smuggled,
		"HTTP/2 settings": "GET / HTTP/1.1\r\nHost: {}\r\n" +
			"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newMemoryWorld(t)
				a := newAgent("a")
				var r recorder
				l, address := w.listenForAgent()
				var serving sync.WaitGroup
				serving.Go(func() {
					for {
						c, err := l.Accept()
						if err != nil {
							return
						}
						serving.Go(func() { r.serve(c) })
					}
				})
				w.ready(a, address)
				c := w.raw()
				// The router may close the connection before it has read all.
				serving.Go(func() { _, _ = io.WriteString(c, strings.ReplaceAll(sent, "{}", hostname(a))+end) })
				_ = c.SetReadDeadline(time.Now().Add(time.Second)) // if a body lacks its end
				answer, _ := io.ReadAll(c)
				_ = c.Close()
				w.stop()
				w.ended <- <-w.ended // the router's connections are closed
				_ = l.Close()
				serving.Wait()
				r.check(t, string(answer))
			})
		})
	}
}

// check checks what reached the agent.
func (r *recorder) check(t *testing.T, answer string) {
	t.Helper()
	got := r.bytes.String()
	if len(r.requests) > 1 {
		t.Errorf("%d requests reached the agent:\n%q", len(r.requests), got)
	}
	head, _, _ := strings.Cut(got, "\r\n\r\n")
	if n := strings.Count(head, "\r\nContent-Length:") + strings.Count(head, "\r\nTransfer-Encoding:"); n > 1 {
		t.Errorf("a request with %d framings reached the agent:\n%q", n, got)
	}
	for _, req := range r.requests {
		if req.Header.Get("Authorization") != "" || req.Header.Get("Upgrade") != "" {
			t.Errorf("a request reached the agent with %v", req.Header)
		}
	}
	for _, bad := range []string{"\x00", "\x0b", "\r ", "\r\n ", "evil.example", ";a=", "secret"} {
		if strings.Contains(got, bad) {
			t.Errorf("the agent got %q in:\n%q", bad, got)
		}
	}
	if strings.Count(got, "\n") != strings.Count(got, "\r\n") {
		t.Errorf("the agent got a line that ends with LF alone:\n%q", got)
	}
	if answer == "" {
		t.Error("the client got no answer")
	}
}
