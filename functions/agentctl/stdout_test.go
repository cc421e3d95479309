package agentctl_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agents.example/controlplane/functions/agentctl"
)

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
