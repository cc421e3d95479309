package intake_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane/intake"
	"agents.example/controlplane/shared/nettest"
)

// serve serves until the test ends. It answers with the length of the body.
func serve(t *testing.T, limits intake.Limits) nettest.Listener {
	t.Helper()
	l := nettest.Listen()
	s := &http.Server{
		ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			n, err := io.Copy(io.Discard, req.Body)
			_, _ = fmt.Fprintln(w, n, err)
		}),
	}
	intake.Bound(s)
	go func() { _ = s.Serve(intake.Listen(l, limits)) }() // ends with ErrServerClosed
	t.Cleanup(func() { _ = s.Close() })
	return l
}

// client is a connection on which a test writes bytes.
type client struct {
	net.Conn
	t *testing.T
	r *bufio.Reader
}

func dial(t *testing.T, l nettest.Listener) client {
	t.Helper()
	c, err := l.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return client{c, t, bufio.NewReader(c)}
}

// send writes in the background, because a server that refuses does not read all.
func (c client) send(text string) { go func() { _, _ = io.WriteString(c, text) }() }

// answer reads an answer.
func (c client) answer() (status int, body string) {
	c.t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close() //nolint:errcheck // all is read
	b, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

const begin = "POST / HTTP/1.1\r\nHost: x\r\n"

func lines(n int) string { return strings.Repeat("a:\r\n", n) }

func line(n int) string { return "a: " + strings.Repeat("x", n) + "\r\n" }

func TestListener_RefusesLargeHeaders(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		sent string
		want int
	}{
		"most bytes":             {sent: begin + line(16_000) + "\r\n", want: 200},
		"too many bytes":         {sent: begin + line(17_000) + "\r\n", want: 431},
		"too many, unfinished":   {sent: begin + line(17_000), want: 431},
		"a long target":          {sent: "GET /" + strings.Repeat("x", 17_000) + " HTTP/1.1\r\n\r\n", want: 431},
		"most lines":             {sent: begin + lines(126) + "\r\n", want: 200},
		"too many lines":         {sent: begin + lines(130) + "\r\n", want: 431},
		"lines that end with LF": {sent: begin + strings.Repeat("a:\n", 130) + "\n", want: 431},
		"continued lines":        {sent: begin + "a: b\r\n" + strings.Repeat(" \r\n", 130) + "\r\n", want: 431},
		"a body is no header": {
			sent: begin + "Content-Length: 20\r\n" + line(15_990) + "\r\n" + lines(5), want: 200,
		},
		"HTTP/2 is not spoken":     {sent: "PRI * HTTP/2.0\r\n" + lines(130), want: 431},
		"nor may it follow":        {sent: begin + "\r\nPRI * HTTP/2.0\r\n" + lines(130), want: 200},
		"a second header is alone": {sent: begin + lines(100) + "\r\n" + begin + lines(100) + "\r\n", want: 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := dial(t, serve(t, intake.Limits{Connections: 1, Unfinished: 1 << 20}))
				c.send(row.sent)
				status, body := c.answer()
				if status != row.want {
					t.Errorf("got %d, want %d: %s", status, row.want, body)
				}
				if row.want == 431 && !strings.Contains(body, "16 KiB and 128 lines") {
					t.Errorf("the answer %q does not say what is admitted", body)
				}
			})
		})
	}
}

// TestListener_CountsTheNextHeaderFromItsBeginning sends requests with bodies one after the other on a connection.
func TestListener_CountsTheNextHeaderFromItsBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := dial(t, serve(t, intake.Limits{Connections: 1, Unfinished: 1 << 20}))
		for range 5 {
			c.send(begin + line(8_000) + "Content-Length: 30000\r\n\r\n" + strings.Repeat("\n", 30_000))
			if status, body := c.answer(); status != 200 || body != "30000 <nil>\n" {
				t.Fatalf("got %d %q, want 200 and the whole body", status, body)
			}
		}
		c.send(begin + lines(130) + "\r\n")
		if status, _ := c.answer(); status != 431 {
			t.Errorf("a large header after good ones: got %d, want 431", status)
		}
	})
}

func TestListener_BoundsUnfinishedHeadersTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := serve(t, intake.Limits{Connections: 10, Unfinished: 10_000})
		large := begin + line(15_000) // 7 KiB more than free
		for range 2 {
			first := dial(t, l)
			first.send(large)
			synctest.Wait()
			second := dial(t, l)
			second.send(large)
			if status, body := second.answer(); status != 503 || !strings.Contains(body, "large headers") {
				t.Errorf("a second large header got %d %q, want 503", status, body)
			}
			small := dial(t, l)
			small.send(begin + line(5_000) + "\r\n")
			if status, _ := small.answer(); status != 200 {
				t.Errorf("a small header next to a large one got %d, want 200", status)
			}
			first.send("\r\n")
			if status, _ := first.answer(); status != 200 {
				t.Errorf("the first large header got %d, want 200", status)
			}
		}
		gone := dial(t, l)
		gone.send(large)
		synctest.Wait()
		_ = gone.Close()
		synctest.Wait()
		last := dial(t, l)
		last.send(large + "\r\n")
		if status, _ := last.answer(); status != 200 {
			t.Errorf("a large header after the connection of another ended: got %d, want 200", status)
		}
	})
}

func TestListener_BoundsConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := serve(t, intake.Limits{Connections: 2})
		first := dial(t, l)
		dial(t, l)
		if status, _ := dial(t, l).answer(); status != 503 {
			t.Errorf("the third connection got %d, want 503", status)
		}
		_ = first.Close()
		synctest.Wait()
		next := dial(t, l)
		next.send(begin + "\r\n")
		if status, _ := next.answer(); status != 200 {
			t.Errorf("a connection in the place of another got %d, want 200", status)
		}
	})
}

func TestDial_BoundsTheHeadersOfAnswers(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		answer string
		large  bool
	}{
		"small":          {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"most lines":     {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines(126) + "\r\nok"},
		"too many lines": {answer: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + lines(130) + "\r\nok", large: true},
		"too many bytes": {answer: "HTTP/1.1 200 OK\r\n" + line(17_000), large: true},
		"behind another": {
			answer: "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n" + lines(130) + "\r\n", large: true,
		},
		"others": {answer: strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 130), large: true},
		"lines in the body": {
			answer: "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n" +
				strings.Repeat("\n", 20_000),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := nettest.Listen()
				go answerAll(l, row.answer)
				transport := &http.Transport{DialContext: intake.Dial(
					func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) })}
				defer l.Close() //nolint:errcheck // of the test
				defer transport.CloseIdleConnections()
				for range 3 { // on the same connection, if it is good
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
					if err != nil {
						t.Fatal(err)
					}
					res, err := transport.RoundTrip(intake.Expecting(req))
					if err == nil {
						_, err = io.Copy(io.Discard, res.Body)
						_ = res.Body.Close()
					}
					if large := errors.Is(err, intake.ErrHeader); large != row.large || err != nil && !large {
						t.Errorf("got %v, want an error for a large header: %t", err, row.large)
					}
				}
			})
		})
	}
}

// answerAll answers each request with a text.
func answerAll(l net.Listener, answer string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close() //nolint:errcheck // of the test
			for r := bufio.NewReader(c); ; {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				if _, err := io.WriteString(c, answer); err != nil {
					return
				}
			}
		}()
	}
}
