package front_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/dataplane/front"
	"agents.example/controlplane/shared/nettest"
)

// flush sends what was written.
func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// TestForward_StreamsEventsAsTheyHappen lets the container send an event only after the client has got the former.
func TestForward_StreamsEventsAsTheyHappen(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		// A proxy that buffers would flush events, and answers of unknown length, anyway.
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "45")
		for i := range 5 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			flush(w)
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	}), nil)
	res := f.request(t, http.MethodPost, "/v1/chat/completions", bearer)
	lines := bufio.NewScanner(res.Body)
	for i := range 5 {
		if !lines.Scan() || lines.Text() != fmt.Sprintf("data: %d", i) {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
		}
		lines.Scan()
		next <- struct{}{}
	}
}

// TestForward_AnswersWhileTheRequestArrives sends the second half of a request after the answer has begun.
func TestForward_AnswersWhileTheRequestArrives(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		flush(w)
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v", b, err)
	}), nil)
	body, send := io.Pipe()
	res := f.request(t, http.MethodPost, "/", basic, func(r *http.Request) { r.Body = body })
	_, _ = io.WriteString(send, "second half")
	_ = send.Close()
	if got, err := io.ReadAll(res.Body); string(got) != "second half <nil>" || err != nil {
		t.Errorf("the container got %q, %v; want the second half", got, err)
	}
}

// pattern is a body of a size that is never in memory.
func pattern(size int64) io.Reader { return io.LimitReader(endless{}, size) }

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i)
	}
	return len(p), nil
}

const large = 100 << 20

func TestForward_PassesLargeBodiesInBothDirections(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Received", fmt.Sprint(n))
		_, _ = io.Copy(w, pattern(large))
	}), nil)
	res := f.request(t, http.MethodPost, "/upload", basic, func(r *http.Request) {
		r.Body = io.NopCloser(pattern(large))
	})
	if got := res.Header.Get("X-Received"); got != fmt.Sprint(large) {
		t.Errorf("the container received %s bytes, want %d", got, large)
	}
	digest := sha256.New()
	if n, err := io.Copy(digest, res.Body); err != nil || n != large {
		t.Errorf("the client received %d bytes, %v; want %d", n, err, large)
	}
}

// TestForward_BuffersNoUpload sends more than buffers hold to a container that does not read.
func TestForward_BuffersNoUpload(t *testing.T) {
	t.Parallel()
	const most = 64 << 20
	read := make(chan struct{})
	f := start(t, serveContainer(t, func(http.ResponseWriter, *http.Request) { <-read }), nil)
	ctx, cancel := context.WithCancel(t.Context())
	sent := &countingReader{}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.url+"/", sent)
	if err != nil {
		t.Fatal(err)
	}
	basic(req)
	done := make(chan error, 1)
	go func() {
		res, err := f.client.Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		done <- err
	}()
	waitUntil(t, "the upload stalls", func() bool {
		before := sent.n.Load()
		for range 50 { // the front serves others while it takes nothing
			f.get(t, "/health/ready")
		}
		return before > most || before > 0 && sent.n.Load() == before
	})
	cancel()
	<-done //nolint:errcheck // it fails, because the client left
	close(read)
	if n := sent.n.Load(); n > most {
		t.Errorf("%d bytes were taken for a container that reads none", n)
	}
}

func TestForward_TellsTheContainerThatTheClientLeft(t *testing.T) {
	t.Parallel()
	left, arrived := make(chan struct{}), make(chan struct{})
	f := start(t, serveContainer(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(left)
	}), nil)
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, f.url+"/", nil)
	basic(req)
	go func() { <-arrived; cancel() }()
	if res, err := f.client.Do(req); err == nil {
		_ = res.Body.Close()
		t.Fatal("the request succeeded")
	}
	<-left
}

func TestForward_SaysWhatIsWrongWithTheContainer(t *testing.T) {
	t.Parallel()
	abort := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		port int
		want string
	}{
		"nothing listens":        {refusingPort(t), "must listen on the port in its variable PORT"},
		"dies before its answer": {serveContainer(t, abort), "closed the connection before it answered"},
	} {
		f := start(t, c.port, nil)
		status, body := f.get(t, "/", basic)
		if status != http.StatusBadGateway || !strings.Contains(body, c.want) {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
	}
}

func TestForward_CutsAnAnswerThatTheContainerDidNotFinish(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		flush(w)
		panic(http.ErrAbortHandler)
	}), nil)
	res := f.request(t, http.MethodGet, "/", basic)
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("the client read %q as a complete answer", b)
	}
}

// echoSocket switches protocols and echoes, as a WebSocket does.
func echoSocket(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "websocket" {
		http.Error(w, "no upgrade", http.StatusBadRequest)
		return
	}
	conn, both, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close() //nolint:errcheck // the test is over
	fmt.Fprint(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	_, _ = io.Copy(conn, both)
}

// dialSocket opens a WebSocket through the front with the dashboard's password.
func (f *fixture) dialSocket(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, in, res := f.upgrade(t, "/socket", basic)
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d, want 101", res.StatusCode)
	}
	return conn, in
}

// upgrade asks for a WebSocket.
func (f *fixture) upgrade(t *testing.T, path string, prepare func(*http.Request)) (
	net.Conn, *bufio.Reader, *http.Response,
) {
	t.Helper()
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+path, nil)
	prepare(req)
	req.Header.Set("Connection", "keep-alive, Upgrade")
	req.Header.Set("X-Forwarded-For", "203.0.113.7")
	req.Host = hostname
	req.Header.Set("Upgrade", "websocket")
	if err := req.Write(conn); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	return conn, in, res
}

func TestForward_WebSocketsEcho(t *testing.T) {
	t.Parallel()
	f := start(t, serveContainer(t, echoSocket), nil)
	conn, in := f.dialSocket(t)
	for i := range 3 {
		fmt.Fprintf(conn, "message %d\n", i)
		if got, err := in.ReadString('\n'); got != fmt.Sprintf("message %d\n", i) {
			t.Fatalf("echo %q, %v", got, err)
		}
	}
	const size = 8 << 20
	go func() { _, _ = io.Copy(conn, pattern(size)); _ = conn.(*net.TCPConn).CloseWrite() }()
	if n, err := io.Copy(io.Discard, in); n != size || err != nil {
		t.Errorf("%d bytes came back until the end, %v; want %d", n, err, size)
	}
}

func TestFront_BoundsConcurrentRequests(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		flush(w)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}), nil)
	for range 256 {
		if res := f.request(t, http.MethodGet, "/", basic); res.StatusCode != http.StatusOK {
			t.Fatalf("status %d, want 200", res.StatusCode)
		}
	}
	res := f.request(t, http.MethodGet, "/", basic)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("one more: status %d, Retry-After %q; want 503 and a time", res.StatusCode,
			res.Header.Get("Retry-After"))
	}
	if got, _ := f.get(t, "/health/ready"); got != http.StatusOK {
		t.Errorf("the health check: status %d, want 200", got)
	}
	close(release)
	waitUntil(t, "requests are accepted again", func() bool {
		got, _ := f.get(t, "/", basic)
		return got == http.StatusOK
	})
}

func TestServe_RefusesConnectionsBeyondItsBound(t *testing.T) {
	t.Parallel()
	f := start(t, refusingPort(t), nil)
	var open []net.Conn
	for range 512 {
		conn, err := net.Dial("tcp", f.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		open = append(open, conn)
	}
	conn, err := net.Dial("tcp", f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // the test is over
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, want 503 with Retry-After", res.StatusCode)
	}
	_ = open[0].Close()
	waitUntil(t, "a connection is accepted again", func() bool {
		res, err := f.client.Get(f.url + "/auth/check")
		if err != nil {
			return false
		}
		_ = res.Body.Close()
		return res.StatusCode == http.StatusUnauthorized
	})
}

// TestServe_FinishesRequestsInFlight ends a front in virtual time: it accepts connections only for lingerTime.
func TestServe_FinishesRequestsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		arrived, released := make(chan struct{}), make(chan struct{})
		release := sync.OnceFunc(func() { close(released) })
		defer release()
		container := nettest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/slow" {
				return
			}
			close(arrived)
			<-released
			_, _ = io.WriteString(w, "complete")
		}))
		l := nettest.Listen()
		f := startOn(t, l, l.Dial, 1, func(o *front.Options) { o.HealthPath, o.DrainTime = "/", patience })
		f.front.DialContainer(container.DialContext)
		answered := make(chan string, 1)
		go func() {
			_, body := f.get(t, "/slow", basic)
			answered <- body
		}()
		<-arrived
		ended := make(chan error, 1)
		go func() { ended <- f.end() }()
		synctest.Wait()
		if res := f.request(t, http.MethodGet, "/health/ready"); res.StatusCode != http.StatusServiceUnavailable ||
			res.Header.Get("Retry-After") == "" {
			t.Errorf("readiness at the end: status %d, Retry-After %q; want 503 and a time", res.StatusCode,
				res.Header.Get("Retry-After"))
		}
		if res := f.request(t, http.MethodGet, "/", basic); res.StatusCode != http.StatusOK || !res.Close {
			t.Errorf("a request while readiness fails: status %d, closes %t; want 200 on a connection that ends",
				res.StatusCode, res.Close)
		}
		release()
		if got := <-answered; got != "complete" {
			t.Errorf("the request in flight got %q", got)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestServe_EndsStreamsAfterTheDrainTime(t *testing.T) {
	t.Parallel()
	const drain = 1200 * time.Millisecond
	f := start(t, serveContainer(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			echoSocket(w, r)
			return
		}
		flush(w)
		<-r.Context().Done()
	}), func(o *front.Options) { o.DrainTime = drain })
	res := f.request(t, http.MethodGet, "/", basic)
	_, socket := f.dialSocket(t)
	if err := f.end(); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), drain.String()) {
		t.Errorf("Serve: %v, want an error that says what was still in flight after %s", err, drain)
	}
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the cut stream looks complete")
	}
	if _, err := socket.ReadByte(); err == nil {
		t.Error("the WebSocket is still open")
	}
}
