package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/emulators/containers/tunnel"
)

// timeout bounds reads, so that a connection that hangs fails its test.
const timeout = 2 * time.Minute

// server answers each connection with its remote host and everything that it read, when reading has ended.
func server(t *testing.T) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	t.Cleanup(open.Wait)
	t.Cleanup(func() { _ = l.Close() })
	open.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer conn.Close() //nolint:errcheck // the test is over
				_ = conn.SetDeadline(time.Now().Add(timeout))
				text, _ := io.ReadAll(conn)
				host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
				_, _ = fmt.Fprintf(conn, "%s sent %s", host, text)
			})
		}
	})
	return l.Addr().String()
}

// serve runs a tunnel at a Unix socket until the test ends, or stop is called.
func serve(t *testing.T, run func(context.Context, net.Listener) error) (path string, stop func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "t") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path = filepath.Join(dir, "s")
	l, err := tunnel.Listen(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- run(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("tunnel: %v", err)
		}
	})
	t.Cleanup(stop)
	return path, stop
}

// open connects to a Unix socket and sends text.
func open(t *testing.T, path, text string) *net.UnixConn {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		t.Fatal(err)
	}
	if text == "" { // even a write of nothing fails when the other side has closed
		return conn.(*net.UnixConn)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.UnixConn)
}

// finish ends what is sent and returns what is received.
func finish(t *testing.T, conn *net.UnixConn, r io.Reader) string {
	t.Helper()
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestForward_JoinsConnections(t *testing.T) {
	t.Parallel()
	address := server(t)
	path, _ := serve(t, func(ctx context.Context, l net.Listener) error {
		return tunnel.Forward(ctx, l, tunnel.To("tcp", address))
	})
	conn := open(t, path, "hello")
	if got, want := finish(t, conn, conn), "127.0.0.1 sent hello"; got != want {
		t.Errorf("received %q, want %q", got, want)
	}
}

func TestForward_ClosesWhatHasNoListener(t *testing.T) {
	t.Parallel()
	path, _ := serve(t, func(ctx context.Context, l net.Listener) error {
		return tunnel.Forward(ctx, l, tunnel.To("unix", "/nowhere"))
	})
	conn := open(t, path, "")
	if n, err := conn.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v; want the end", n, err)
	}
}

func TestForward_EndsOpenConnections(t *testing.T) {
	t.Parallel()
	address := server(t)
	path, stop := serve(t, func(ctx context.Context, l net.Listener) error {
		return tunnel.Forward(ctx, l, tunnel.To("tcp", address))
	})
	conn := open(t, path, "hello")
	stop()
	if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("read after the end: %v, want an end", err)
	}
}

func TestConnect(t *testing.T) {
	t.Parallel()
	address := server(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	source := netip.MustParseAddr("127.9.9.9")
	path, _ := serve(t, func(ctx context.Context, l net.Listener) error {
		return tunnel.Connect(ctx, l, map[string]netip.Addr{"node": netip.MustParseAddr("127.0.0.1")}, source)
	})
	for name, test := range map[string]struct {
		request string
		status  int
		body    string
	}{
		"by address": {request: "CONNECT " + address + " HTTP/1.1\r\n\r\n", status: 200, body: "127.9.9.9 sent text"},
		"by name":    {request: "CONNECT node:" + port + " HTTP/1.1\r\n\r\n", status: 200, body: "127.9.9.9 sent text"},
		"from another address": {
			request: "CONNECT " + address + " HTTP/1.1\r\nX-Source: 127.8.8.8\r\n\r\n", status: 200,
			body: "127.8.8.8 sent text",
		},
		"from no address": {request: "CONNECT " + address + " HTTP/1.1\r\nX-Source: here\r\n\r\n", status: 502},
		"no listener":     {request: "CONNECT 127.0.0.1:1 HTTP/1.1\r\n\r\n", status: 502},
		"no port":         {request: "CONNECT node HTTP/1.1\r\n\r\n", status: 502},
		"another method":  {request: "GET http://node/ HTTP/1.1\r\nHost: node\r\n\r\n", status: 405},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := open(t, path, test.request+"text") // in one packet: the proxy reads ahead
			r := bufio.NewReader(conn)
			res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close() //nolint:errcheck // an answer to CONNECT has none
			if res.StatusCode != test.status {
				t.Fatalf("status %d, want %d", res.StatusCode, test.status)
			}
			if test.body == "" {
				return
			}
			if got := finish(t, conn, r); !strings.HasSuffix(got, test.body) {
				t.Errorf("received %q, want %q", got, test.body)
			}
		})
	}
}
