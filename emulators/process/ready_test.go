//go:build unix

package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"agents.example/controlplane/shared/nettest"
)

func TestListening(t *testing.T) {
	t.Parallel()
	if err := Listening(nettest.Refusing(t).String())(t.Context()); err == nil {
		t.Error("Listening(port where no server listens) succeeds, want an error")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	if err := Listening(listener.Addr().String())(t.Context()); err != nil {
		t.Errorf("Listening(port of a server): %v", err)
	}
}

func TestFreePorts_AreDifferent(t *testing.T) {
	t.Parallel()
	const n = 500 // so many random ports of the range are hardly ever different by chance
	ports, err := FreePorts(n)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int]bool{}
	for _, port := range ports {
		seen[port] = true
	}
	if len(seen) != n {
		t.Errorf("%d different ports, want %d", len(seen), n)
	}
}

// TestFreePorts_AreReserved tests that a server can listen on a port, one after the other, and that no process can
// reserve it in between. No test starts a process during it: a child has the sockets of its parent until it executes
// its program, so that a port whose server was closed may be in use for that moment.
func TestFreePorts_AreReserved(t *testing.T) { //nolint:paralleltest // see above
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", ""} {
		if _, err := reserve(port); !errors.Is(err, syscall.EADDRINUSE) && runtime.GOOS == "linux" {
			t.Errorf("reserve(port of FreePort) = %v, want that it is in use", err)
		}
		server, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			t.Fatalf("listen on a port of FreePort: %v", err)
		}
		if err := Listening(server.Addr().String())(t.Context()); err != nil {
			t.Error(err)
		}
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestLogTail_IsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(LogTail(path), "\n")
	if len(lines) != tailLines || lines[0] != "line 9980" || lines[tailLines-1] != "line 9999" {
		t.Errorf("got %d lines, first %q, last %q; want the last 20", len(lines), lines[0], lines[len(lines)-1])
	}
	if got := LogTail(filepath.Join(t.TempDir(), "none")); got != "" {
		t.Errorf("LogTail(missing file) = %q, want none", got)
	}
}
