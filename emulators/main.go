//go:build unix

// Command emulators compiles the program emulators/local, which runs the whole deployment on this machine, and becomes
// it. Its arguments are those of that program. The commands bench and load are those of the program emulators/measure.
//
// It prints the help itself, which a newcomer reads before anything is compiled.
//
// `go run` shows nothing while it compiles. So it compiles this small program, which shows the progress of the rest, and
// compiles it as go test does, so that no package is compiled twice.
package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	"agents.example/controlplane/emulators/gobuild"
)

// usage is what emulators/local prints about its flags, which a test compares.
//
//go:embed usage.txt
var usage string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	if len(os.Args) > 1 && slices.Contains([]string{"-h", "-help", "--help", "help"}, os.Args[1]) {
		fmt.Print(usage)
		return
	}
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
