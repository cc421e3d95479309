//go:build unix

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// asTool is the environment variable that makes the test's program the tool.
const asTool = "AGENTCTL_TEST_AS_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(asTool) != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignals_TheSecondEndsAnything interrupts the tool while it reads a file that never ends.
func TestSignals_TheSecondEndsAnything(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, executable, "api", "POST", "/api/v1/agents", "-d", "@"+pipe)
	cmd.Env = append(cmd.Environ(), asTool+"=1", "AGENTS_BASE_URL=http://127.0.0.1:1", "AGENTS_API_KEY=so_unused")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for isReading := false; ; {
		select {
		case <-again.C:
			if !isReading { // a pipe without a reader cannot be opened so
				write, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
				if err != nil {
					continue
				}
				defer write.Close() //nolint:errcheck // it was not written to
				isReading = true
			}
			// A signal that comes before the tool has handled the first one counts as the same.
			_ = cmd.Process.Signal(os.Interrupt)
		case err := <-ended:
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !status.Signaled() || status.Signal() != syscall.SIGINT {
				t.Errorf("the tool ended with %v, want the signal", err)
			}
			return
		}
	}
}
