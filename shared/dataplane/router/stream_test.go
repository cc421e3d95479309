package router_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
)

// outlive waits for longer than every timeout. It is for tests in virtual time.
func outlive() { <-time.After(time.Hour) }

// h2 makes a client speak HTTP/2 without TLS.
func h2(c *http.Client) *http.Client {
	t := c.Transport.(*http.Transport)
	t.Protocols = new(http.Protocols)
	t.Protocols.SetUnencryptedHTTP2(true)
	return c
}

// TestRouter_PassesEachEventOfASlowStream sends an event only after the client has received the one before.
func TestRouter_PassesEachEventOfASlowStream(t *testing.T) {
	t.Parallel()
	same := func(c *http.Client) *http.Client { return c }
	for name, row := range map[string]struct {
		client        func(*http.Client) *http.Client
		header, value string
	}{
		"HTTP/1.1":               {client: same, header: "Content-Type", value: "text/event-stream"},
		"HTTP/2":                 {client: h2, header: "Content-Type", value: "text/event-stream"},
		"HTTP/1.1, known length": {client: same, header: "Content-Length", value: "32"},
		"HTTP/2, known length":   {client: h2, header: "Content-Length", value: "32"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newMemoryWorld(t)
				next := make(chan struct{})
				a := w.start("a", func(w http.ResponseWriter, req *http.Request) {
					outlive() // before the header, too
					w.Header().Set(row.header, row.value)
					for i := range 4 {
						fmt.Fprintf(w, "data: %d\n", i)
						_ = http.NewResponseController(w).Flush()
						if i == 3 {
							return
						}
						select {
						case <-next:
						case <-req.Context().Done():
							return
						}
					}
				})
				req := w.request(http.MethodGet, hostname(a), "/events", nil)
				res, err := row.client(w.client()).Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = res.Body.Close() }()
				lines := bufio.NewScanner(res.Body)
				for i := range 4 {
					if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
						t.Fatalf("line %d = %q, %v", i, lines.Text(), lines.Err())
					}
					outlive()
					if i < 3 {
						next <- struct{}{}
					}
				}
				if lines.Scan() || lines.Err() != nil {
					t.Errorf("after the stream: %q, %v, want its end", lines.Text(), lines.Err())
				}
			})
		})
	}
}

func echo(w http.ResponseWriter, req *http.Request) {
	c, err := websocket.Accept(w, req, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	for {
		kind, message, err := c.Read(req.Context())
		if err != nil || c.Write(req.Context(), kind, message) != nil {
			return
		}
	}
}

// dialSocket opens a WebSocket to an agent, and returns the header of the answer, too.
func (w *world) dialSocket(host string, header ...string) (*websocket.Conn, http.Header) {
	w.t.Helper()
	o := &websocket.DialOptions{HTTPClient: w.client(), HTTPHeader: http.Header{}}
	for i := 0; i+1 < len(header); i += 2 {
		o.HTTPHeader.Add(header[i], header[i+1])
	}
	c, res, err := websocket.Dial(w.t.Context(), "ws://"+host+"/", o)
	if err != nil {
		w.t.Fatal(err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	w.t.Cleanup(func() { _ = c.CloseNow() })
	return c, res.Header
}

func say(t *testing.T, c *websocket.Conn, message string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
	if _, got, err := c.Read(t.Context()); err != nil || string(got) != message {
		t.Fatalf("the echo of %q = %q, %v", message, got, err)
	}
}

func TestRouter_KeepsWebSocketsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newMemoryWorld(t)
		c, _ := w.dialSocket(hostname(w.start("a", echo)))
		for i := range 3 {
			say(t, c, fmt.Sprint("message ", i))
			outlive()
		}
		say(t, c, strings.Repeat("x", 30_000))
		if err := c.Close(websocket.StatusNormalClosure, "done"); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
}

// TestRouter_OpensNoOtherTunnelThanAWebSocket: requests inside another protocol would pass the front unseen. And the
// handshake of a WebSocket has no body: an answer that came while it was read would end the process.
func TestRouter_OpensNoOtherTunnelThanAWebSocket(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	upgrade := make(chan string, 2)
	a := w.start("a", func(w http.ResponseWriter, req *http.Request) {
		upgrade <- req.Header.Get("Upgrade") + req.Header.Get("Connection")
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
	})
	got, _ := w.get(hostname(a), "/", "Connection", "Upgrade, HTTP2-Settings", "Upgrade", "h2c", "HTTP2-Settings", "AA")
	if sent := <-upgrade; sent != "" {
		t.Errorf("the agent got the upgrade %q, want none", sent)
	}
	if got.status != http.StatusBadGateway {
		t.Errorf("an agent that switches protocols without being asked: got %d, want 502", got.status)
	}
	c := w.raw()
	c.send("GET / HTTP/1.1\r\nHost: " + hostname(a) + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n")
	if sent := <-upgrade; sent != "" {
		t.Errorf("with a body, the agent got the upgrade %q, want none", sent)
	}
	c.status(http.StatusBadGateway)
}

const (
	transfer = 100 << 20
	step     = 10 << 20
)

// paced is a body of transfer bytes. It waits before each step until the receiver has got most of the one before.
type paced struct {
	sent     int
	received <-chan int
	got      int
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	if p.sent == transfer {
		return 0, io.EOF
	}
	for p.sent-p.got > step { // what is on the way is in buffers of the kernel
		got, ok := <-p.received
		if !ok {
			return 0, errors.New("the receiver is gone")
		}
		p.got = got
	}
	n := min(len(b), transfer-p.sent)
	p.sent += n
	return n, nil
}

// receive reads a body, and reports how much it has read at every quarter of a step.
func receive(r io.Reader, received chan<- int) (int, error) {
	defer close(received)
	b, total, reported := make([]byte, 64<<10), 0, 0
	for {
		n, err := r.Read(b)
		total += n
		if total-reported >= step/4 {
			reported = total
			received <- total
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// TestRouter_BuffersNoTransfer moves 100 MB each way. The sender waits for the receiver, so that a router that stored
// more than a tenth of it would stop the transfer.
func TestRouter_BuffersNoTransfer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	received := make(chan int, transfer/step*8)
	a := w.start("a", func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodPost {
			n, err := receive(req.Body, received)
			fmt.Fprint(w, n, err)
			return
		}
		_, _ = io.Copy(struct{ io.Writer }{w}, &paced{received: received})
	})
	t.Run("upload", func(t *testing.T) {
		req := w.request(http.MethodPost, hostname(a), "/", io.NopCloser(&paced{received: received}))
		if _, body := w.do(w.client(), req); body != fmt.Sprint(transfer, nil) {
			t.Errorf("the agent received %s bytes, want %d", body, transfer)
		}
	})
	t.Run("download", func(t *testing.T) {
		received = make(chan int, transfer/step*8)
		res, err := w.client().Do(w.request(http.MethodGet, hostname(a), "/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		if n, err := receive(res.Body, received); n != transfer || err != nil {
			t.Errorf("received %d bytes, %v, want %d", n, err, transfer)
		}
	})
}

// TestRouter_EndsTheAgentsRequestWhenTheClientGoesAway covers clients that wait, that stream, and that send.
func TestRouter_EndsTheAgentsRequestWhenTheClientGoesAway(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(w http.ResponseWriter, req *http.Request){
		"waiting":   func(http.ResponseWriter, *http.Request) {},
		"streaming": func(w http.ResponseWriter, _ *http.Request) { _ = http.NewResponseController(w).Flush() },
		"sending":   func(_ http.ResponseWriter, req *http.Request) { _, _ = req.Body.Read(make([]byte, 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			begun, ended := make(chan struct{}), make(chan struct{})
			a := w.start("a", func(w http.ResponseWriter, req *http.Request) {
				defer close(ended)
				begin(w, req)
				close(begun)
				if _, err := io.Copy(io.Discard, req.Body); err == nil { // otherwise it is the end of the connection
					<-req.Context().Done()
				}
			})
			ctx, leave := context.WithCancel(t.Context())
			var body io.ReadCloser
			if name == "sending" {
				r, sender := io.Pipe()
				body = r
				go func() { _, _ = sender.Write(make([]byte, 64<<10)) }() // more than the client buffers
				context.AfterFunc(ctx, func() { _ = sender.CloseWithError(ctx.Err()) })
			}
			answered, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				res, err := w.client().Do(w.request(http.MethodPost, hostname(a), "/", body).WithContext(ctx))
				if err == nil {
					close(answered)
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
			}()
			<-begun
			if name == "streaming" {
				<-answered
			}
			leave()
			<-ended
			<-done
			w.awaitCount(hostname(a), map[string]map[string]string{
				"waiting": {"499": "1"}, "streaming": {"200": "1"}, "sending": {"499": "1"},
			}[name])
		})
	}
}

// TestRouter_BreaksOffAnAnswerThatTheAgentBreaksOff: a client must not take half an answer for a whole one.
func TestRouter_BreaksOffAnAnswerThatTheAgentBreaksOff(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]func(*http.Client) *http.Client{
		"HTTP/1.1": func(c *http.Client) *http.Client { return c }, "HTTP/2": h2,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.start("a", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			res, err := client(w.client()).Do(w.request(http.MethodGet, hostname(a), "/", nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = res.Body.Close() }()
			if body, err := io.ReadAll(res.Body); err == nil || res.StatusCode != http.StatusOK {
				t.Errorf("got %d %q without an error, want 200 and a broken body", res.StatusCode, body)
			}
			w.awaitCount(hostname(a), map[string]string{"502": "1"})
		})
	}
}
