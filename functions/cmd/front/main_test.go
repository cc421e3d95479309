package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"agents.example/controlplane/shared/testtier"
)

// TestFront_StaysWithinItsMemory runs the binary with the limits of the pod template, 256 streams, and SIGTERM.
func TestFront_StaysWithinItsMemory(t *testing.T) {
	t.Parallel()
	testtier.RequireFull(t, "builds and runs the binary")
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	binary := filepath.Join(t.TempDir(), "front")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	release := make(chan struct{})
	container := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 8 {
			_, _ = w.Write(bytes.Repeat([]byte("x"), 32<<10))
			_ = http.NewResponseController(w).Flush()
		}
		<-release
	}))
	defer container.Close()
	u, err := url.Parse(container.URL)
	if err != nil {
		t.Fatal(err)
	}
	const host = "127.61.7.3" // the port is fixed
	address := net.JoinHostPort(host, "8080")
	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Stderr = &log
	cmd.Env = []string{
		"LISTEN_HOST=" + host, "AGENT_PORT=" + u.Port(), "DASHBOARD_USERNAME=admin", "DASHBOARD_PASSWORD=canary-1",
		"API_SERVER_KEY=canary-2", "GOMEMLIMIT=24MiB",
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitListener(t, address)
	idle := residentKiB(t, cmd.Process.Pid)
	for range 256 {
		openStream(t, "http://"+address+"/v1/stream")
	}
	busy := residentKiB(t, cmd.Process.Pid)
	t.Logf("resident memory: %d KiB idle, %d KiB with 256 streams", idle, busy)
	if busy > 32<<10 {
		t.Errorf("the front has %d KiB of memory with 256 streams, want at most 32 MiB", busy)
	}
	close(release)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || strings.Contains(log.String(), "canary") {
		t.Errorf("after SIGTERM: %v, log:\n%s", err, log.String())
	}
}

// awaitListener waits until a program listens on an address.
func awaitListener(t *testing.T, address string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		if conn, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("no program listens on %s", address)
		}
	}
}

// openStream makes a request whose answer does not end, and reads its beginning.
func openStream(t *testing.T, target string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(`{"stream": true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer canary-2")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	if _, err := io.ReadFull(res.Body, make([]byte, 256<<10)); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
}

// residentKiB returns the resident memory of a process.
func residentKiB(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(b)
	if match == nil {
		t.Fatalf("no VmRSS in %s", b)
	}
	n, err := strconv.Atoi(string(match[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
