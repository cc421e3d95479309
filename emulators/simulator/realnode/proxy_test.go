package realnode

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startProxy runs a Proxy for a node with a socket, and returns the proxy's socket.
func startProxy(t *testing.T, node string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "egress")
	p, err := Listen(t.Context(), socket, node)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- p.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// accept calls handle with each connection to a listener.
func accept(t *testing.T, network, address string, handle func(net.Conn)) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			handle(connection)
			_ = connection.Close()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	return listener
}

// startNode runs a CONNECT proxy that answers with status, and then with the address that it was asked for.
func startNode(t *testing.T, status string) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "node")
	accept(t, "unix", socket, func(c net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = fmt.Fprintf(c, "HTTP/1.1 %s\r\n\r\nnode reaches %s", status, request.Host)
	})
	return socket
}

// ask asks a proxy for a connection and returns the status of the answer and what the server sends.
func ask(t *testing.T, socket, request string) (status, text string) {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has ended
	if _, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", request); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	head, text, _ := strings.Cut(string(all), "\r\n\r\n")
	status, _, _ = strings.Cut(strings.TrimPrefix(head, "HTTP/1.1 "), "\r\n")
	return status, text
}

func TestProxy_ReachesTheNodeThroughItsSocket(t *testing.T) {
	t.Parallel()
	socket := startProxy(t, startNode(t, "200 OK"))
	for name, test := range map[string]struct{ target, want string }{
		"address of the node": {"10.77.255.1:10250", "node reaches 10.77.255.1:10250"},
		"name of the node":    {"real-0:10250", "node reaches 10.77.255.1:10250"},
		"pod of the node":     {"10.77.0.7:8080", "node reaches 10.77.0.7:8080"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, text := ask(t, socket, "CONNECT "+test.target)
			if status != "200 OK" || text != test.want {
				t.Errorf("CONNECT %s: %s, %q; want 200 OK, %q", test.target, status, text, test.want)
			}
		})
	}
}

func TestProxy_ReachesOtherAddressesDirectly(t *testing.T) {
	t.Parallel()
	server := accept(t, "tcp", "127.0.0.1:0", func(c net.Conn) { _, _ = io.WriteString(c, "direct") })
	socket := startProxy(t, startNode(t, "200 OK"))
	if status, text := ask(t, socket, "CONNECT "+server.Addr().String()); status != "200 OK" || text != "direct" {
		t.Errorf("CONNECT to a server of this machine: %s, %q; want 200 OK, direct", status, text)
	}
}

func TestProxy_ForwardsBothDirections(t *testing.T) {
	t.Parallel()
	server := accept(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		_, _ = io.WriteString(c, "echo "+line)
	})
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", startProxy(t, "unused"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has ended
	// The first line comes with the request, as if the client did not wait.
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\nhello\n", server.Addr()); err != nil {
		t.Fatal(err)
	}
	if all, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(all), "\r\n\r\necho hello\n") {
		t.Errorf("answer = %q (%v), want the server's echo", all, err)
	}
}

func TestProxy_NamesTheReasonOfAFailure(t *testing.T) {
	t.Parallel()
	refusing := startProxy(t, startNode(t, "502 no such pod"))
	absent := startProxy(t, filepath.Join(t.TempDir(), "absent"))
	for name, test := range map[string]struct{ socket, request, want string }{
		"node does not run": {
			socket: absent, request: "CONNECT 10.77.255.1:10250", want: "502 node real-0 does not run: ",
		},
		"node refuses": {
			socket: refusing, request: "CONNECT 10.77.0.9:80", want: "502 node real-0 cannot connect to 10.77.0.9:80: ",
		},
		"no server there": {socket: refusing, request: "CONNECT 127.0.0.1:1", want: "502 dial tcp 127.0.0.1:1: "},
		"no port": {
			socket: refusing, request: "CONNECT 10.77.0.9", want: "502 address 10.77.0.9: missing port",
		},
		"no tunnel required": {socket: refusing, request: "GET http://10.77.0.9/", want: "405 want CONNECT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if status, _ := ask(t, test.socket, test.request); !strings.HasPrefix(status, test.want) {
				t.Errorf("%s: %q, want %q", test.request, status, test.want)
			}
		})
	}
}

func TestProxy_EndsConnectionsWhenItEnds(t *testing.T) {
	t.Parallel()
	server := accept(t, "tcp", "127.0.0.1:0", func(c net.Conn) {
		_, _ = io.Copy(io.Discard, c) // until the proxy closes the connection
	})
	p, err := Listen(t.Context(), filepath.Join(t.TempDir(), "egress"), "unused")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Serve(ctx) }()
	c, err := new(net.Dialer).DialContext(t.Context(), "unix", p.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() //nolint:errcheck // it has ended
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", server.Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 200 OK\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Serve = %v, want no error after its context ended", err)
	}
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the client's connection: %v, want it closed", err)
	}
}

func TestListen_ReplacesTheSocketOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "egress")
	before, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	before.SetUnlinkOnClose(false) // as if the process was killed
	_ = before.Close()
	p, err := Listen(t.Context(), socket, "unused")
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
}
