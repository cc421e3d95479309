//go:build unix

// Command emulators compiles the program emulators/local, which runs the whole deployment on this machine, and becomes
// it. Its arguments are those of that program.
//
// `go run` shows nothing while it compiles. So it compiles this small program, which shows the progress of the rest, and
// compiles with the same flags as the local Kubernetes cluster, so that no package is compiled twice.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"agents.example/controlplane/emulators/gobuild"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	dir, err := gobuild.Programs(ctx, os.Stderr, "the local cloud", "agents.example/controlplane/emulators/local")
	stop()
	if err == nil {
		err = syscall.Exec(filepath.Join(dir, "local"), os.Args, os.Environ()) //nolint:gosec // it was just compiled
	}
	fmt.Fprintln(os.Stderr, "emulators:", err)
	os.Exit(1)
}
