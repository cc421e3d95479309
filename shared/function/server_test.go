package function_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/function"
)

// TestServer_RefusesSlowBodies measures when a response begins. A body that arrives at half of the least rate of
// 26,214 bytes a second is refused after 10 seconds.
func TestServer_RefusesSlowBodies(t *testing.T) {
	t.Parallel()
	const discard = 50 * time.Millisecond
	for name, c := range map[string]struct {
		request clientRequest
		status  int
		least   time.Duration
		most    time.Duration
	}{
		"a byte a second": {
			request: clientRequest{
				path: "/authenticated", token: "admin", length: 1000, chunk: 1, interval: time.Second,
			},
			status: 408, least: 5 * time.Second, most: 5*time.Second + 2*discard,
		},
		"a byte a second, public": {
			request: clientRequest{path: "/public", length: 1000, chunk: 1, interval: time.Second},
			status:  408, least: 5 * time.Second, most: 5*time.Second + 2*discard,
		},
		"a byte a second, worker": {
			request: clientRequest{
				path: "/workers/Work", token: "push", length: 1000, chunk: 1, interval: time.Second,
			},
			status: 408, least: 5 * time.Second, most: 5*time.Second + 2*discard,
		},
		"half of the least rate": {
			request: clientRequest{
				path: "/authenticated", token: "admin", length: 256 << 10, chunk: 1311,
				interval: 100 * time.Millisecond,
			},
			status: 408, least: 9 * time.Second, most: 11 * time.Second,
		},
		"the least rate": {
			request: clientRequest{
				path: "/authenticated", token: "admin", length: 256 << 10, chunk: 2700,
				interval: 100 * time.Millisecond,
			},
			status: 200, least: 9 * time.Second, most: 11 * time.Second,
		},
		"the least rate for too long": {
			request: clientRequest{
				path: "/large", token: "admin", length: 2 << 20, chunk: 2700, interval: 100 * time.Millisecond,
			},
			status: 408, least: 30 * time.Second, most: 30*time.Second + 2*discard,
		},
		"fast": {
			request: clientRequest{path: "/large", token: "admin", length: 2 << 20, first: 2 << 20},
			status:  200, most: 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				res := c.request.do(t, servePipes(t, slowRoutes()))
				if res.status != c.status || res.status == http.StatusRequestTimeout &&
					!strings.Contains(res.body, `"code":"request_timeout"`) {
					t.Errorf("status = %d with %s, want %d", res.status, res.body, c.status)
				}
				if res.took < c.least || res.took > c.most {
					t.Errorf("the response took %s, want %s to %s", res.took, c.least, c.most)
				}
				if refused := c.status != http.StatusOK; res.closes != refused {
					t.Errorf("the response closes the connection: %t, want %t", res.closes, refused)
				}
			})
		})
	}
}

// TestServer_RefusesWithoutTheBody: a response that does not need the body does not wait for it.
func TestServer_RefusesWithoutTheBody(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request clientRequest
		status  int
	}{
		"no token": {request: clientRequest{path: "/authenticated"}, status: 401},
		"worker":   {request: clientRequest{path: "/workers/Work", token: "x"}, status: 401},
		"404":      {request: clientRequest{path: "/none"}, status: 404},
		"405":      {request: clientRequest{path: "/public", method: "PUT"}, status: 405},
		"413":      {request: clientRequest{path: "/authenticated", token: "admin", length: 300 << 10}, status: 413},
	} {
		if c.request.length == 0 {
			c.request.length = 200_000
		}
		for _, sent := range []int{0, 100} {
			t.Run(fmt.Sprintf("%s, %d bytes sent", name, sent), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					request := c.request
					request.first = sent
					res := request.do(t, servePipes(t, slowRoutes()))
					if res.status != c.status || !res.closes {
						t.Errorf("status = %d, closes = %t; want %d, true", res.status, res.closes, c.status)
					}
					if res.took > 0 {
						t.Errorf("the response took %s, want none", res.took)
					}
				})
			})
		}
	}
}

// TestServer_KeepsConnectionsOfSmallBodies: a refusal keeps the connection if the small body is there or on its way.
func TestServer_KeepsConnectionsOfSmallBodies(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		delay time.Duration
		keeps bool
	}{
		"with the header":  {delay: 0, keeps: true},
		"after the header": {delay: 20 * time.Millisecond, keeps: true},
		"too late":         {delay: 100 * time.Millisecond, keeps: false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var sending sync.WaitGroup
				defer sending.Wait()
				conn := servePipes(t, slowRoutes()).dial()
				defer conn.Close() //nolint:errcheck // the test is over
				r := clientRequest{path: "/authenticated", token: "wrong", length: 1000}
				sending.Go(func() {
					for range 2 {
						_, _ = io.WriteString(conn, r.header())
						<-time.After(c.delay)
						_, _ = io.WriteString(conn, strings.Repeat("x", 1000))
					}
				})
				reader := bufio.NewReader(conn)
				for n := range 2 {
					res, err := receive(reader)
					if n == 1 && !c.keeps {
						if err == nil {
							t.Error("the second request has a response, want a closed connection")
						}
						return
					}
					if err != nil || res.status != http.StatusUnauthorized || res.closes == c.keeps {
						t.Fatalf("response %d = %+v, %v; want 401 that keeps the connection = %t", n, res, err, c.keeps)
					}
				}
			})
		})
	}
}

// TestServer_DoesNotAskForUnneededBodies: a client that waits for 100 Continue gets the refusal instead.
func TestServer_DoesNotAskForUnneededBodies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := servePipes(t, slowRoutes()).dial()
		defer conn.Close() //nolint:errcheck // the test is over
		go func() {
			_, _ = io.WriteString(conn, "POST /authenticated HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n"+
				"Expect: 100-continue\r\n\r\n")
		}()
		res, err := receive(bufio.NewReader(conn))
		if err != nil || res.status != http.StatusUnauthorized || !res.closes {
			t.Errorf("response = %+v, %v; want 401 that closes the connection", res, err)
		}
	})
}

// TestServer_RefusalReachesClientsThatSend: a client that sends its whole body before it reads finds the refusal,
// although the server does not need the body.
func TestServer_RefusalReachesClientsThatSend(t *testing.T) {
	t.Parallel()
	s := serveTCP(t, slowRoutes())
	r := clientRequest{path: "/authenticated", length: 250_000}
	for range 20 {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, r.header()+strings.Repeat("x", r.length)); err != nil {
			t.Errorf("the body could not be sent: %v", err)
		}
		if res, err := receive(bufio.NewReader(conn)); err != nil || res.status != http.StatusUnauthorized {
			t.Errorf("response = %+v, %v; want 401", res, err)
		}
		_ = conn.Close()
	}
}

// TestServer_ClosesConnections: clients that send no complete header, an endless one, or nothing for long, lose their
// connection.
func TestServer_ClosesConnections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sends  string
		after  time.Duration
		answer string
	}{
		"nothing":          {sends: "", after: 10 * time.Second, answer: ""},
		"half of a header": {sends: "POST / HTTP/1.1\r\nHost: h\r\n", after: 10 * time.Second, answer: ""},
		"idle": {
			sends: "GET /none HTTP/1.1\r\nHost: h\r\n\r\n", after: 620 * time.Second, answer: "HTTP/1.1 404",
		},
		"a header over 64 KiB": {
			sends: "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 64<<10), after: 0, answer: "HTTP/1.1 431",
		},
		"unread body": {
			sends: "POST /none HTTP/1.1\r\nHost: h\r\nContent-Length: 200000\r\n\r\n", after: 2 * time.Second,
			answer: "HTTP/1.1 404",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				conn := servePipes(t, slowRoutes()).dial()
				defer conn.Close() //nolint:errcheck // the test is over
				go func() { _, _ = io.WriteString(conn, c.sends) }()
				began := time.Now()
				answer, err := io.ReadAll(conn)
				answered := c.answer != ""
				if err != nil || !strings.HasPrefix(string(answer), c.answer) || answered != (len(answer) > 0) {
					t.Errorf("answer = %.40q, %v; want %q", answer, err, c.answer)
				}
				// net/http waits for half a second so that the client finds the answer.
				if took := time.Since(began); took < c.after || took > c.after+time.Second {
					t.Errorf("the connection ended after %s, want %s", took, c.after)
				}
			})
		})
	}
}

// TestServer_AcceptsLargeHeaders: a header of 60 KiB is served.
func TestServer_AcceptsLargeHeaders(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := servePipes(t, slowRoutes()).dial()
		defer conn.Close() //nolint:errcheck // the test is over
		go func() {
			_, _ = io.WriteString(conn, "GET /none HTTP/1.1\r\nHost: h\r\nX: "+strings.Repeat("x", 60<<10)+"\r\n\r\n")
		}()
		res, err := receive(bufio.NewReader(conn))
		if err != nil || res.status != http.StatusNotFound {
			t.Errorf("response = %+v, %v; want 404", res, err)
		}
	})
}

// TestServer_EndsResponsesThatAreNotReceived: a client that does not read its response loses the connection.
func TestServer_EndsResponsesThatAreNotReceived(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		written := make(chan error, 1)
		conn := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(make([]byte, 1<<20))
			written <- err
		})).dial()
		defer conn.Close() //nolint:errcheck // the test is over
		began := time.Now()
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if err := <-written; err == nil {
			t.Error("the response was written, want an error")
		}
		if took := time.Since(began); took < 70*time.Second || took > 71*time.Second {
			t.Errorf("the write ended after %s, want 30 s and 40 s for its length", took)
		}
	})
}

// TestServer_WaitsForHandlers: the limits are those of clients. A handler takes the time that it needs.
func TestServer_WaitsForHandlers(t *testing.T) {
	t.Parallel()
	for name, length := range map[string]int{"no body": 0, "body": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := servePipes(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					for range 100 {
						select {
						case <-req.Context().Done():
							t.Error("the request was canceled")
						case <-time.After(time.Minute):
						}
						if _, err := io.WriteString(w, "line\n"); err != nil {
							t.Error(err)
						}
						_ = http.NewResponseController(w).Flush()
					}
				}))
				conn := p.dial()
				defer conn.Close() //nolint:errcheck // the test is over
				go func() {
					r := clientRequest{path: "/", length: length}
					_, _ = io.WriteString(conn, r.header()+strings.Repeat("x", length))
				}()
				res, err := receive(bufio.NewReader(conn))
				if len(res.body) != 500 || err != nil {
					t.Errorf("body = %d bytes, %v; want 500", len(res.body), err)
				}
			})
		})
	}
}

// TestServer_LimitsTheBodiesOfStrangers lets strangers send slowly to a public route. Other routes are served, and so
// is the public one when the slow requests have ended.
func TestServer_LimitsTheBodiesOfStrangers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := servePipes(t, slowRoutes())
		var all sync.WaitGroup
		took := make(chan time.Duration, 16)
		for range cap(took) {
			all.Go(func() {
				res := clientRequest{path: "/public", length: 1000}.do(t, p)
				if res.status != http.StatusRequestTimeout {
					t.Errorf("a slow request got %d, want 408", res.status)
				}
				took <- res.took
			})
		}
		synctest.Wait()
		fast := clientRequest{path: "/public", length: 100, first: 100}
		if res := fast.do(t, p); res.status != http.StatusServiceUnavailable || res.took > 0 {
			t.Errorf("one request more got %d after %s, want 503 immediately", res.status, res.took)
		}
		other := clientRequest{path: "/authenticated", token: "admin", length: 100, first: 100}
		if res := other.do(t, p); res.status != http.StatusOK {
			t.Errorf("another route answered %d, want 200", res.status)
		}
		// Who sends slowly loses the place to another stranger.
		<-time.After(time.Second)
		if res := fast.do(t, p); res.status != http.StatusOK || res.took > 0 {
			t.Errorf("a request next to slow ones got %d after %s, want 200 immediately", res.status, res.took)
		}
		if early := <-took; early > 2*time.Second {
			t.Errorf("the first slow request ended after %s, want its place taken after a second", early)
		}
		synctest.Wait()
		if n := len(took); n > 0 {
			t.Errorf("%d more slow requests ended, want the others to go on", n)
		}
		all.Wait()
		if res := fast.do(t, p); res.status != http.StatusOK {
			t.Errorf("the public route answered %d after the slow requests, want 200", res.status)
		}
	})
}

// TestServer_WritesNothingAfterASwitchOfProtocols: what follows on the connection is not HTTP's.
func TestServer_WritesNothingAfterASwitchOfProtocols(t *testing.T) {
	t.Parallel()
	var problems bytes.Buffer
	s := httptest.NewUnstartedServer(nil)
	s.Config = function.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, err = io.WriteString(conn, "other protocol")
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}))
	s.Config.ErrorLog = log.New(&problems, "", 0)
	s.Start()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the server has closed it
	const request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: o\r\n\r\n"
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	s.Close() // waits for the end of the handler
	if err != nil || !strings.HasSuffix(string(answer), "\r\n\r\nother protocol") || problems.Len() > 0 {
		t.Errorf("answer %q, %v; the server's log has %q", answer, err, problems.String())
	}
}
