package front_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestForward_AnnouncesTheEndOfAConnection: a connection either serves the request that follows the body, or ends after
// an answer that says so. No part of a body is a request.
func TestForward_AnnouncesTheEndOfAConnection(t *testing.T) {
	t.Parallel()
	const (
		small = len("work")
		large = 1 << 20 // more than net/http reads to save a connection
	)
	for name, row := range map[string]struct {
		length   int // of the body
		header   string
		chunked  bool
		withheld bool             // the client sends the body after it has the answer
		serve    http.HandlerFunc // nil is a container that refuses connections
		want     int
		last     bool
	}{
		"read":                  {length: small, serve: readAll, want: 200},
		"read, large":           {length: large, serve: readAll, want: 200},
		"read, chunks":          {length: large, chunked: true, serve: readAll, want: 200},
		"no body":               {want: 502},
		"early":                 {length: small, withheld: true, serve: hangUp, want: 401, last: true},
		"early, large":          {length: large, withheld: true, serve: hangUp, want: 401, last: true},
		"refused":               {length: small, want: 502, last: true},
		"refused, large":        {length: large, want: 502, last: true},
		"refused, chunks":       {length: small, chunked: true, want: 502, last: true},
		"refused, withheld":     {length: large, withheld: true, want: 502, last: true},
		"refused, 100-continue": {length: small, header: "Expect: 100-continue\r\n", want: 502, last: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := refusingPort(t)
			if row.serve != nil {
				port = serveContainer(t, row.serve)
			}
			f := start(t, port, nil)
			conn, in := f.dial(t)
			next := "GET /auth/check HTTP/1.1\r\nHost: " + hostname + "\r\n\r\n" // answered with 401
			body := strings.Repeat(next, row.length/len(next)+1)[:row.length]
			framing := "Content-Length: " + strconv.Itoa(row.length)
			if row.chunked {
				framing = "Transfer-Encoding: chunked"
				body = strconv.FormatInt(int64(row.length), 16) + "\r\n" + body + "\r\n0\r\n\r\n"
			}
			send(t, conn, "POST /v1/x HTTP/1.1\r\nHost: "+hostname+"\r\nAuthorization: Bearer "+apiKey+"\r\n"+
				row.header+framing+"\r\n\r\n")
			if !row.withheld {
				send(t, conn, body)
			}
			if last := readAnswer(t, in, row.want); last != row.last {
				t.Errorf("the answer says that it is the last of its connection: %t, want %t", last, row.last)
			}
			if row.withheld {
				_, _ = io.WriteString(conn, body) // the front may have closed
			}
			if !row.last {
				send(t, conn, next)
				readAnswer(t, in, http.StatusUnauthorized)
				return
			}
			if after, err := io.ReadAll(in); len(after) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after its last answer, the connection gives %q, %v, want its end", after, err)
			}
		})
	}
}

// TestServe_RefusesWithoutTheBody: a client without a credential holds no connection, because the front does not wait
// for the body of a request that it refuses.
func TestServe_RefusesWithoutTheBody(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, readAll), nil)
	for name, row := range map[string]struct {
		path, host string
		want       int
	}{
		"no credential":  {path: "/v1/x", host: hostname, want: http.StatusUnauthorized},
		"dashboard":      {path: "/", host: hostname, want: http.StatusUnauthorized},
		"another agent":  {path: "/v1/x", host: "other.example.com", want: http.StatusMisdirectedRequest},
		"ambiguous path": {path: "/v1/../x", host: hostname, want: http.StatusBadRequest},
		"hand-off":       {path: "/handoff", host: hostname, want: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, in := f.dial(t) // with a deadline of ten seconds
			send(t, conn, "POST "+row.path+" HTTP/1.1\r\nHost: "+row.host+"\r\nContent-Length: 1000\r\n\r\nx")
			if last := readAnswer(t, in, row.want); !last {
				t.Error("the answer does not say that it is the last of its connection")
			}
			if after, err := io.ReadAll(in); len(after) > 0 || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after its last answer, the connection gives %q, %v, want its end", after, err)
			}
		})
	}
}

// TestForward_EndsConnectionsWhileItDrains: httputil.ReverseProxy clears the header of the answer after a 103.
func TestForward_EndsConnectionsWhileItDrains(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}), nil)
	f.front.BeginDrain()
	for _, path := range []string{"/plain", "/hints"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth(user, password)
		res, err := f.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK || !res.Close {
			t.Errorf("%s: status %d, the last answer of its connection: %t, %v; want 200 and the last", path,
				res.StatusCode, res.Close, err)
		}
	}
}

// TestForward_LosesNoRequestWhileTheContainerRefusesConnections: routers reuse their connections for POSTs, which they
// may not repeat.
func TestForward_LosesNoRequestWhileTheContainerRefusesConnections(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 100 {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/v1/x",
					io.NopCloser(strings.NewReader("work"))) // without GetBody, the transport repeats no request
				req.ContentLength = int64(len("work"))
				bearer(req)
				res, err := f.client.Do(req)
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

// dial opens a connection to the front.
func (f *fixture) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return conn, bufio.NewReader(conn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// readAnswer reads an answer, and reports whether it is the last one of its connection.
func readAnswer(t *testing.T, in *bufio.Reader, want int) (last bool) {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	for err == nil && res.StatusCode == http.StatusContinue {
		res, err = http.ReadResponse(in, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // was read
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != want {
		t.Fatalf("status %d, want %d", res.StatusCode, want)
	}
	return res.Close
}

func readAll(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }

// hangUp answers before it has the body.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(conn, "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	_ = conn.Close()
}

// TestForward_AsksNoContainerForAnInterimAnswer: some do not know the header, and the request would wait for a second.
func TestForward_AsksNoContainerForAnInterimAnswer(t *testing.T) {
	t.Parallel()
	port := serveContainer(t, func(w http.ResponseWriter, req *http.Request) {
		if got := req.Header.Get("Expect"); got != "" {
			t.Errorf("the container is asked for %s", got)
		}
		readAll(w, req)
	})
	conn, in := start(t, port, nil).dial(t)
	send(t, conn, "POST /v1/x HTTP/1.1\r\nHost: "+hostname+"\r\nAuthorization: Bearer "+apiKey+
		"\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n")
	if line, err := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("the client that withholds its body gets %q, %v, want 100", line, err)
	}
	_, _ = in.ReadString('\n')
	send(t, conn, "work")
	readAnswer(t, in, http.StatusOK)
}
