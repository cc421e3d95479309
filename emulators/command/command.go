// Package command has what the programs of the local cloud have in common as commands: signals, flags, a log and the
// progress on a terminal. It does not know what they do.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"agents.example/controlplane/shared/function"
)

// Main runs a program with its arguments until it ends or is interrupted, and exits if it fails. A second signal ends
// the program immediately.
func Main(run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	case err != nil:
		fmt.Fprintln(os.Stderr, "emulators:", err)
		os.Exit(1)
	}
}

// NewFlags makes the flags of a command, whose help begins with a sentence about it.
func NewFlags(command, about string) *flag.FlagSet {
	name, arguments, _ := strings.Cut(command, " ")
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.Usage = func() {
		usage := strings.TrimSpace("Usage: go run ./emulators " + name + " [flags] " + arguments)
		fmt.Fprintf(flags.Output(), "%s\n\n%s\n\nFlags:\n", usage, about)
		flags.PrintDefaults()
	}
	return flags
}

// LogTo sends the functions' log lines to a file, so that the terminal shows only progress.
func LogTo(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(function.NewLogger(f, slog.LevelInfo, ""))
	return f, nil
}
