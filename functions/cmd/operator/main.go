// Command operator runs the operator's commands, which customers cannot run. It uses the database that its environment
// names, or a local cloud:
//
//	operator [-ready FILE] [-as NOTE] COMMAND [FLAGS]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		usage(os.Stderr)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "operator:", err)
		os.Exit(1)
	}
}
