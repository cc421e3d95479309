package router_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
)

// post is the beginning of a request that wakes the agent at a host.
func post(host, framing string) string {
	return "POST /p HTTP/1.1\r\nHost: " + host + "\r\nAuthorization: x\r\n" + framing + "\r\n\r\n"
}

// TestHold_SendsNothingOfAClientThatIsGone: a sender that gives up and repeats its request would have it done twice.
func TestHold_SendsNothingOfAClientThatIsGone(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ framing, body string }{
		"with a length":      {framing: "Content-Length: 4", body: "work"},
		"in chunks":          {framing: "Transfer-Encoding: chunked", body: "4\r\nwork\r\n0\r\n\r\n"},
		"half of a length":   {framing: "Content-Length: 4", body: "wo"},
		"half of the chunks": {framing: "Transfer-Encoding: chunked", body: "4\r\nwork\r\n"},
		"largest":            {framing: "Content-Length: 32767", body: strings.Repeat("x", 32767)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asleep(t, func(w *world, _ *alarm, a agent.Agent) {
				c := w.raw()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, _ = io.WriteString(c, post(hostname(a), row.framing)+row.body)
				}()
				<-time.After(5 * time.Second)
				if held := w.metric("router_held_requests"); held != 1 {
					t.Errorf("%v requests are held, want 1", held)
				}
				_ = c.Close()
				<-sent
				synctest.Wait()
				<-time.After(time.Second)
				if held := w.metric("router_held_requests"); held != 0 {
					t.Errorf("%v requests are held after their client went away, want none", held)
				}
				var requests atomic.Int64
				w.wake(a, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
				<-time.After(5 * time.Second)
				if n := requests.Load(); n != 0 {
					t.Errorf("the agent got %d requests, want none", n)
				}
			})
		})
	}
}

// TestHold_WaitsForTheBody: a client may be slower than the agent.
func TestHold_WaitsForTheBody(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		framing, first, rest string
		want                 int
	}{
		"with a length": {framing: "Content-Length: 8", first: "work", rest: "work", want: 8},
		"in chunks": {
			framing: "Transfer-Encoding: chunked", first: "4\r\nwork\r\n", rest: "4\r\nwork\r\n0\r\n\r\n", want: 8,
		},
		"of more than is read early": {
			framing: "Content-Length: 100000", first: strings.Repeat("x", 40_000), rest: strings.Repeat("y", 60_000),
			want: 100_000,
		},
		"expected": {framing: "Expect: 100-continue\r\nContent-Length: 4", rest: "work", want: 4},
		"empty":    {framing: "Transfer-Encoding: chunked", rest: "0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asleep(t, func(w *world, _ *alarm, a agent.Agent) {
				c := w.raw()
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					_, _ = io.WriteString(c, post(hostname(a), row.framing)+row.first)
					<-time.After(20 * time.Second)
					_, _ = io.WriteString(c, row.rest)
				}()
				go func() {
					<-time.After(10 * time.Second)
					w.wake(a, fine)
				}()
				if got, want := readFinal(t, c), fmt.Sprint("POST /p ", row.want); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				<-sent
			})
		})
	}
}

// readFinal returns the body of the answer on a connection, after interim ones.
func readFinal(t *testing.T, c net.Conn) string {
	t.Helper()
	for r := bufio.NewReader(c); ; {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode == http.StatusContinue {
			continue
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
}

// TestHold_WaitsForNoBodyLongerThanForTheAgent: a client that withholds its body keeps no place.
func TestHold_WaitsForNoBodyLongerThanForTheAgent(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		c := w.raw()
		go func() { _, _ = io.WriteString(c, post(hostname(a), "Content-Length: 8")+"work") }()
		began := time.Now()
		if got := readFinal(t, c); !strings.Contains(got, "agent_waking") || time.Since(began) > 62*time.Second {
			t.Errorf("got %q after %s, want agent_waking after a minute", got, time.Since(began))
		}
	})
}

// TestHold_SendsNoPartOfABrokenBody: its client is still there, and learns what is wrong without delay.
func TestHold_SendsNoPartOfABrokenBody(t *testing.T) {
	t.Parallel()
	asleep(t, func(w *world, _ *alarm, a agent.Agent) {
		c := w.raw()
		go func() {
			_, _ = io.WriteString(c, post(hostname(a), "Transfer-Encoding: chunked")+"4\r\nwork\r\nno number\r\n")
		}()
		var requests atomic.Int64
		go func() {
			<-time.After(10 * time.Second)
			w.wake(a, func(http.ResponseWriter, *http.Request) { requests.Add(1) })
		}()
		began := time.Now()
		if got := readFinal(t, c); !strings.Contains(got, "invalid_body") || time.Since(began) > 5*time.Second {
			t.Errorf("got %q after %s, want invalid_body", got, time.Since(began))
		}
		<-time.After(20 * time.Second)
		if n := requests.Load(); n != 0 {
			t.Errorf("the agent got %d requests, want none", n)
		}
	})
}
