package agentctl_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"agents.example/controlplane/functions/agentctl"
)

// silentInput is an input that never comes. It calls asked when a command waits for it.
type silentInput struct {
	*io.PipeReader
	asked func()
}

// Read implements io.Reader.
func (s silentInput) Read(b []byte) (int, error) {
	s.asked()
	defer time.AfterFunc(10*time.Second, func() { _ = s.Close() }).Stop() // a command that waits for it fails
	return s.PipeReader.Read(b)
}

// TestInput_EndsWithTheCommand starts commands that wait for a person or for standard input. Ctrl-C and --timeout end
// them, and nothing is changed.
func TestInput_EndsWithTheCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("a command without input sent %s %s", r.Method, r.URL.Path)
		}
		_, _ = fmt.Fprintf(w, `{"id": %q, "name": "one", "status": "running"}`, someAgent)
	}))
	t.Cleanup(server.Close)
	for _, test := range []struct {
		name, args string
		terminal   bool
	}{
		{name: "a name to confirm", args: "agents delete " + someAgent, terminal: true},
		{name: "a question", args: "keys revoke " + someAgent, terminal: true},
		{name: "a secret", args: "secrets set " + someAgent + " KEY"},
		{name: "secrets", args: "secrets import " + someAgent + " -"},
		{name: "variables", args: "agents create one --plan hobby --env-file -"},
		{name: "a manifest", args: "apply -f -"},
		{name: "the input of a command", args: "agents exec " + someAgent + " -i -- cat"},
		{name: "a body", args: "api POST /api/v1/agents -d -"},
		{name: "a key", args: "login --with-key"},
		{name: "a receipt", args: "verify -"},
		{name: "an export", args: "audit verify -"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := strings.Fields(test.args)
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			got := runSilent(ctx, t, server.URL, test.terminal, interrupt, args)
			got.wantCode(t, agentctl.ExitInterrupted, "Interrupted.\n")
			question, _, _ := strings.Cut(got.Stderr, "Interrupted.")
			if test.terminal && !strings.HasSuffix(question, "\n") {
				t.Errorf("the line of the question goes on: %q", got.Stderr)
			}
			args = append([]string{"--timeout", "100ms"}, args...)
			runSilent(t.Context(), t, server.URL, test.terminal, func() {}, args).
				wantCode(t, agentctl.ExitTimeout, "time limit")
		})
	}
}

// runSilent runs a command whose input never comes, and calls asked when the command waits for it.
func runSilent(
	ctx context.Context, t *testing.T, url string, terminal bool, asked func(), args []string,
) output {
	t.Helper()
	read, write := io.Pipe()
	defer write.Close() //nolint:errcheck // ends the last read
	app, stdout, stderr := tool{url: url, token: "so_unused"}.app(t)
	app.Stdin, app.Terminal = silentInput{read, asked}, agentctl.Terminal{In: terminal}
	code := app.Run(ctx, args)
	return output{code, stdout.String(), stderr.String()}
}

// fullDisk refuses every write with an error.
type fullDisk struct{ err error }

// Write implements io.Writer.
func (d fullDisk) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: d.err}
}

func TestRun_FailsIfItsOutputIsLost(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	for _, args := range []string{
		"agents list", "agents list -o json", "agents list -o name", "agents list -o yaml",
		"agents get " + id, "agents get " + id + " -o jsonpath={.id}",
		"api GET /api/v1/me", "api GET /api/v1/me -i", "agents --help", "completion bash",
	} {
		got := a.admin().runTo(t, fullDisk{syscall.ENOSPC}, strings.Fields(args)...)
		if got.Code != agentctl.ExitFailed || !strings.Contains(got.Stderr, "standard output cannot be written") {
			t.Errorf("%s > /dev/full: exit code %d, want %d: %s", args, got.Code, agentctl.ExitFailed, got.Stderr)
		}
	}
	for _, closed := range []io.Writer{fullDisk{syscall.EPIPE}, fullDisk{io.ErrClosedPipe}} {
		if got := a.admin().runTo(t, closed, "agents", "list"); got.Code != agentctl.ExitOK || got.Stderr != "" {
			t.Errorf("a reader that ended: exit code %d, want 0 and no message: %s", got.Code, got.Stderr)
		}
	}
}

func TestRun_TakesMissingFilesForWrongCommandLines(t *testing.T) {
	t.Parallel()
	a := serve(t)
	id := a.RunningAgent(t, org, nil).ID
	missing := filepath.Join(t.TempDir(), "nofile")
	for _, name := range []string{missing, t.TempDir()} {
		for _, args := range [][]string{
			{"api", "POST", "/api/v1/agents", "-d", "@" + name},
			{"secrets", "set", id, "TOKEN", "--from-file", name},
			{"secrets", "import", id, name},
			{"agents", "create", "x", "--env-file", name},
			{"agents", "create", "x", "--config-file", name},
		} {
			got := a.admin().run(t, args...)
			if got.Code != agentctl.ExitUsage || !strings.Contains(got.Stderr, name) {
				t.Errorf("%v: exit code %d, want %d and the file: %s", args, got.Code, agentctl.ExitUsage, got.Stderr)
			}
		}
	}
}
