// Command placeholder holds room on a node: it waits until it is stopped.
//
//	placeholder                  waits
//	placeholder -copy-to=FILE    writes this program to FILE and exits
//
// A placeholder runs in agents' image, so that the image is on the node before an agent needs it. That image has no
// program that waits, so an init container copies this one into a volume that both share.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	file := flag.String("copy-to", "", "the file to write this program to; empty waits")
	flag.Parse()
	if err := run(ctx, *file); err != nil {
		fmt.Fprintln(os.Stderr, "placeholder:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	if file == "" {
		<-ctx.Done()
		return nil
	}
	path, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	return copyProgram(path, file)
}

func copyProgram(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open this program: %w", err)
	}
	defer in.Close() //nolint:errcheck // only read
	const executable = 0o755
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, executable)
	if err != nil {
		return fmt.Errorf("create %s: %w", to, err)
	}
	_, err = io.Copy(out, in)
	if closeErr := out.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", to, err)
	}
	return nil
}
