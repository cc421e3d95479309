// Command emulators is the cloud on a laptop: it starts the whole deployment, creates one agent through the public API,
// and stays up.
//
//	go run ./emulators                        start, run the main job, stay until Ctrl-C
//	go run ./emulators -once                  start, run the main job, delete the agent, end
//	go run ./emulators -emulators embedded    do without the emulators of the Google Cloud SDK
//	go run ./emulators token ...              print a session token of the running cloud
//	go run ./emulators bench                  count what the system spends, and what that costs
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
	if len(args) > 0 && args[0] == "token" {
		return token(ctx, args[1:])
	}
	if len(args) > 0 && args[0] == "bench" {
		return count(ctx, args[1:])
	}
	return up(ctx, args)
}
