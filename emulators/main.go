//go:build unix

// Command emulators compiles the program emulators/local, which runs the whole deployment on this machine, and becomes
// it. Its arguments are those of that program. The commands bench and load are those of the program emulators/measure.
//
// `go run` shows nothing while it compiles. So it compiles this small program, which shows the progress of the rest, and
// compiles it as go test does, so that no package is compiled twice.
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
	program, name := "local", "the local cloud"
	if len(os.Args) > 1 && (os.Args[1] == "bench" || os.Args[1] == "load") {
		program, name = "measure", "the measurements"
	}
	dir, err := gobuild.Programs(ctx, os.Stderr, name, "agents.example/controlplane/emulators/"+program)
	stop()
	if err == nil {
		err = syscall.Exec(filepath.Join(dir, program), os.Args, os.Environ()) //nolint:gosec // it was just compiled
	}
	fmt.Fprintln(os.Stderr, "emulators:", err)
	os.Exit(1)
}
