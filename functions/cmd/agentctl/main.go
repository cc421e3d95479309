// Command agentctl is the command line tool of the control plane.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"agents.example/controlplane/functions/agentctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// A command ends with its context. A second signal ends the process even if a read blocks the command.
	context.AfterFunc(ctx, stop)
	code := agentctl.FromOS().Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
