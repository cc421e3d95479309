package containers_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"

	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec/agentexectest"
	"agents.example/controlplane/shared/ratelimit"
)

// sentUnit is what the tests' processes collect before they count it.
const sentUnit = 1 << 20

// newSentFixture has programs that print a number of bytes.
func newSentFixture(t *testing.T, printed int) *fixture {
	t.Helper()
	f := newFixture(t)
	f.Sent = ratelimit.NewMeter(sentUnit, nil)
	for _, program := range []string{"cat", "tar", "sh", "ls"} {
		f.Containers.Install(program, func(_ context.Context, p *agentexectest.Process) int {
			_, _ = p.Stdout.Write(bytes.Repeat([]byte("x"), printed))
			return 0
		})
	}
	return f
}

// fullExports counts what may be sent in a whole day in place of a unit, so that no time of a test refills it.
type fullExports struct{ agent.ExportStore }

// CountSent implements agent.ExportStore.
func (f fullExports) CountSent(ctx context.Context, organizationID string, _ int64) error {
	all := int64(ratelimit.Standard(1)[ratelimit.Exports].Quota) * ratelimit.ExportUnit
	return f.ExportStore.CountSent(ctx, organizationID, all)
}

// fill uses up what may be sent to the organization in a day.
func (f *fixture) fill(t *testing.T) {
	t.Helper()
	f.Exports = fullExports{f.Exports}
	if err := f.Exports.CountSent(t.Context(), org, 0); err != nil {
		t.Fatal(err)
	}
}

// TestSent_IsCountedWithExports gets files of an organization that has exported all that it may.
func TestSent_IsCountedWithExports(t *testing.T) {
	t.Parallel()
	f := newSentFixture(t, sentUnit*3/4)
	f.fill(t)
	files := f.serve(t, "GetAgentFiles") + "?path=/data/f"
	status, got, err := ask(t, http.MethodGet, files, nil)
	if status != http.StatusOK || err != nil || len(got) != sentUnit*3/4 {
		t.Errorf("a first file: status %d, %d bytes, %v; want all, as it is less than a unit", status, len(got), err)
	}
	status, got, err = ask(t, http.MethodGet, files, nil)
	if status != http.StatusOK || err == nil || len(got) >= sentUnit/2 {
		t.Errorf("a second file: status %d, %d bytes, %v; want that it breaks off at a unit", status, len(got), err)
	}
	for name, call := range map[string]func() functiontest.Response{
		"files": func() functiontest.Response {
			return f.call(t, "GetAgentFiles", functiontest.Query(url.Values{"path": {"/data/f"}}))
		},
		"a command": func() functiontest.Response {
			return f.call(t, "ExecInAgent", functiontest.Body(map[string]any{"command": []string{"ls"}}))
		},
	} {
		res := call().Want(t, http.StatusTooManyRequests, "rate_limited")
		if !strings.Contains(string(res.Body), `"limit":"exports"`) {
			t.Errorf("%s: %s, want the limit exports", name, res.Body)
		}
	}
	terminal := f.serve(t, "OpenAgentTerminal")
	_, answer, err := dial(t, terminal, functiontest.AdminToken(org), nil) //nolint:bodyclose // the library does
	if err == nil || answer.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a terminal: %v, %v, want status 429", answer, err)
	}
	f.call(t, "DeleteAgentFiles", functiontest.Query(url.Values{"path": {"/data/f"}})).Want(t, http.StatusNoContent, "")
}

// TestSent_EndsATerminal prints in a terminal of an organization that has exported all that it may.
func TestSent_EndsATerminal(t *testing.T) {
	t.Parallel()
	f := newSentFixture(t, 4*sentUnit)
	f.fill(t)
	terminal := f.serve(t, "OpenAgentTerminal")
	s, _, err := dial(t, terminal, functiontest.AdminToken(org), nil) //nolint:bodyclose // the library does
	if err != nil {
		t.Fatal(err)
	}
	output, status, end := ending(t, s)
	if len(output) > sentUnit || status["reason"] != "rate_limited" || end.Code != websocket.StatusTryAgainLater {
		t.Errorf("%d bytes, status %v, close %v; want the end after a unit, rate_limited", len(output), status, end)
	}
}

// TestSent_CountsUnits gets a file of some units, and a command's answer that completes another.
func TestSent_CountsUnits(t *testing.T) {
	t.Parallel()
	f := newSentFixture(t, 3*sentUnit+sentUnit/2)
	counted := &countedExports{ExportStore: f.Exports}
	f.Exports = counted
	status, got, err := ask(t, http.MethodGet, f.serve(t, "GetAgentFiles")+"?path=/data/f", nil)
	if status != http.StatusOK || err != nil || len(got) != 3*sentUnit+sentUnit/2 || counted.units.Load() != 3 {
		t.Errorf("status %d, %d bytes, %v, %d units; want all, 3 units", status, len(got), err, counted.units.Load())
	}
	f.call(t, "ExecInAgent", functiontest.Body(map[string]any{"command": []string{"ls"}})).Want(t, http.StatusOK, "")
	if n := counted.units.Load(); n != 4 {
		t.Errorf("%d units after a command whose answer has 1 MiB of its output, want 4", n)
	}
}

// countedExports counts the units that are counted.
type countedExports struct {
	agent.ExportStore

	units atomic.Int64
}

// CountSent implements agent.ExportStore.
func (c *countedExports) CountSent(ctx context.Context, organizationID string, n int64) error {
	c.units.Add(n / ratelimit.ExportUnit)
	return c.ExportStore.CountSent(ctx, organizationID, n)
}
