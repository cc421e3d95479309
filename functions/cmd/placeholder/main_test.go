package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRun_WaitsUntilItIsStopped fails if a placeholder ends by itself: its pod would restart forever.
func TestRun_WaitsUntilItIsStopped(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- run(ctx, "") }()
	select {
	case err := <-done:
		t.Fatalf("run ended with %v before it was stopped", err)
	default:
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("run = %v, want no error", err)
	}
}

// TestRun_CopiesItselfAsAProgram runs the copy.
func TestRun_CopiesItselfAsAProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "placeholder")
	if err := run(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), file, "-test.list=TestRun_CopiesItselfAsAProgram").CombinedOutput()
	if err != nil {
		t.Fatalf("the copy does not run: %v\n%s", err, out)
	}
}

func TestRun_NamesTheFileItCannotWrite(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), filepath.Join(t.TempDir(), "missing", "placeholder"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("run = %v, want an error about the missing directory", err)
	}
}
