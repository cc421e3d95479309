package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/testtier"
)

// TestRouter_OneAgentTakesItsShare holds as many requests as the router admits for one agent, which begins its answers
// and does not end them. The router must not take more memory for them than the 40 MiB that it counts for an agent.
func TestRouter_OneAgentTakesItsShare(t *testing.T) {
	testtier.RequireFull(t, "builds and runs the binary")
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	const shareKiB = 40 << 10
	binaries := t.TempDir()
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binaries, "../router").
		CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	release := make(chan struct{})
	large := strings.Repeat("y", 12_000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex() // it answers before it has the body
		switch req.URL.Path {
		case "/lines":
			for i := range 120 {
				w.Header().Set(fmt.Sprint("x", i), "y")
			}
		case "/line":
			w.Header().Set("X", large)
		}
		_, _ = io.WriteString(w, "begun\n")
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	defer server.Close()
	defer close(release)
	for i, row := range []struct{ name, request string }{
		{"small", "GET / HTTP/1.1\r\n%s\r\n"},
		{"long line", "GET / HTTP/1.1\r\n%s" + headerLine(15_000) + "\r\n"},
		{"many lines", "GET / HTTP/1.1\r\n%s" + shortLines(700) + "\r\n"},
		{"unfinished body", "POST / HTTP/1.1\r\nContent-Length: 100000\r\n%s\r\nx"},
		{"chunks", "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n%s" + headerLine(15_000) + "\r\n1\r\nx\r\n"},
		{"long line in the answer", "GET /line HTTP/1.1\r\n%s\r\n"},
		{"many lines in the answer", "GET /lines HTTP/1.1\r\n%s\r\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			a := agent.Agent{ID: uuid.NewString(), Slug: "a", Cell: "us-1"}
			c := &cell{pods: map[string]pod{}, host: a.Hostname(agent.Addresses{Domain: "agents.example.com"})}
			cmd := c.startRouter(t, binaries, 100+i, a, server.Listener.Addr().(*net.TCPAddr).AddrPort(), "GOGC=10")
			c.hold(t, 1, row.request) // after it, the client is no stranger
			before := residentKiB(t, cmd.Process.Pid)
			held := c.hold(t, 511, row.request)
			took := residentKiB(t, cmd.Process.Pid) - before
			t.Logf("%d requests take %d KiB, %d each", held, took, took/max(held, 1))
			if took > shareKiB*5/4 { // garbage that the collector has not found yet
				t.Errorf("%d requests take %d KiB, want at most %d", held, took, shareKiB)
			}
		})
	}
}

// hold sends requests on a connection each, and returns how many the agent has begun to answer.
func (c *cell) hold(t *testing.T, requests int, text string) (held int) {
	t.Helper()
	text = fmt.Sprintf(text, "Host: "+c.host+"\r\n")
	var mu sync.Mutex
	var clients sync.WaitGroup
	for range requests {
		conn, err := net.Dial("tcp", c.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		clients.Go(func() {
			_, _ = io.WriteString(conn, text)
			reader := bufio.NewReader(conn)
			res, err := http.ReadResponse(reader, nil) //nolint:bodyclose // the connection is closed
			if err == nil && res.StatusCode == http.StatusOK {
				_, _ = io.ReadFull(res.Body, make([]byte, 6))
				mu.Lock()
				defer mu.Unlock()
				held++
			}
		})
	}
	clients.Wait()
	return held
}
