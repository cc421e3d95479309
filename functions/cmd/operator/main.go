// Command operator runs the commands of the service's operator: list organizations, set plans, suspend and resume, find
// out why an agent is stuck, and create and count keys. It uses the database that its environment names, or a local
// cloud:
//
//	operator [-ready FILE] [-as NOTE] COMMAND [FLAGS]
//
// It does not authorize them: everybody with access to the database can run them. Every command about one organization
// that succeeds, reading or writing, adds an entry to that organization's audit log. One that is refused, and one with
// -dry-run, adds none.
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
