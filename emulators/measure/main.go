// Command measure measures the system. It is a separate program, so that the local cloud starts without compiling it.
// The command emulators compiles and runs it:
//
//	go run ./emulators bench    count what operations cost, and price a month
//	go run ./emulators load     measure what hostile clients take from others
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"agents.example/controlplane/shared/function"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "emulators:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "bench":
			return countCosts(ctx, args[1:])
		case "load":
			return measureLoad(ctx, args[1:])
		}
	}
	return errors.New("want the command bench or load")
}

// newFlags makes the flags of a command, whose help begins with a sentence about it.
func newFlags(command, about string) *flag.FlagSet {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "Usage: go run ./emulators %s [flags]\n\n%s\n\nFlags:\n", command, about)
		flags.PrintDefaults()
	}
	return flags
}

// logTo sends the functions' log lines to a file, so that the terminal shows only progress.
func logTo(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(function.NewLogger(f, slog.LevelInfo, ""))
	return f, nil
}
