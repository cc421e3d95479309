package agentctl_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
)

// someAgent is the id of the agent of answering.
const someAgent = "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90"

// answering returns a tool whose API has an agent and gives one answer to every other request.
func answering(t *testing.T, status int, header http.Header, body string) tool {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/"+someAgent) {
			_, _ = fmt.Fprintf(w, `{"id": %q, "name": "one", "status": "running"}`, someAgent)
			return
		}
		for name := range header {
			w.Header().Set(name, header.Get(name))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return tool{url: s.URL, token: "so_unused"}
}

func TestMetrics_DrawsTheCourseOfSeries(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration) int64 { return now.Add(-ago).Unix() }
	c := answering(t, http.StatusOK, nil, fmt.Sprintf(`{"cpu_cores": 0.25, "cpu_pct": 50, "memory_bytes": 1073741824,
		"restarts_24h": 2, "uptime_pct_24h": 99.998, "collected_at": "2026-03-02T09:30:00Z",
		"series": {"cpu": [{"t": %d, "v": 0}, {"t": %d, "v": 0.5}, {"t": %d, "v": 0.25}],
		"memory": [], "requests": [{"t": %d, "v": 3}], "errors": []}}`,
		at(59*time.Minute), at(30*time.Minute), at(time.Minute), at(time.Minute)))
	c.variables = map[string]string{"LANG": "C"}
	got := c.run(t, "agents", "metrics", someAgent, "--window", "1h").ok(t).Stdout
	cpu, _, _ := strings.Cut(got, "\n")
	start, middle, end := strings.Index(cpu, "_"), strings.Index(cpu, "@"), strings.Index(cpu, "+")
	if start < 0 || middle < start+10 || end < middle+10 || !strings.HasSuffix(cpu, "max 0.5 cores") {
		t.Errorf("the line of the CPU is %q, want the lowest, the highest and a middle sign in this order", cpu)
	}
	wantParts(t, "the output", got,
		"0.25 cores", "50 %", "1 GiB", "Requests      3/s", "max 3/s", "99.99 %", "Restarts 24h  2")
}

func TestErrors_SayWhenToTryAgain(t *testing.T) {
	t.Parallel()
	c := answering(t, http.StatusTooManyRequests, http.Header{"Retry-After": {"120"}},
		`{"detail": "Too many requests.", "code": "rate_limited"}`)
	got := c.run(t, "agents", "list")
	got.wantCode(t, agentctl.ExitUnavailable, "Too many requests.", "Try again in 2m0s.")
	if got.Stdout != "" {
		t.Errorf("an error prints to standard output: %q", got.Stdout)
	}
}

// interruptingWriter calls interrupt when a line with a text is written.
type interruptingWriter struct {
	bytes.Buffer
	text      string
	interrupt func()
}

// Write implements io.Writer.
func (w *interruptingWriter) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte(w.text)) {
		w.interrupt()
	}
	return w.Buffer.Write(b)
}

func TestWait_EndsWithCtrlC(t *testing.T) {
	t.Parallel()
	a := serve(t) // no worker runs, so the agent stays as it is
	ctx, interrupt := context.WithTimeout(t.Context(), patience)
	defer interrupt()
	stderr := &interruptingWriter{text: "one is provisioning", interrupt: interrupt}
	app, stdout, _ := a.admin().app(t)
	app.Stderr = stderr
	code := app.Run(ctx, []string{"agents", "create", "one", "--wait"})
	output{code, stdout.String(), stderr.String()}.wantCode(t, agentctl.ExitInterrupted, "Interrupted.\n",
		"agentctl agents get ")
	if t.Context().Err() != nil || stdout.String() != "" {
		t.Errorf("standard output is %q, want none", stdout.String())
	}
}

// TestStreams_ThatBreakOffAreUnavailable loses the connection in the middle of an answer.
func TestStreams_ThatBreakOffAreUnavailable(t *testing.T) {
	t.Parallel()
	c := answering(t, http.StatusOK, http.Header{"Content-Length": {"1000"}}, "{}\n")
	for _, args := range [][]string{
		{"audit", "export"}, {"agents", "logs", someAgent}, {"api", "GET", "/api/v1/me"},
	} {
		c.run(t, args...).wantCode(t, agentctl.ExitUnavailable, "the connection to 127.0.0.1:",
			"failed: the answer broke off: unexpected EOF", "Check the network connection")
	}
}
