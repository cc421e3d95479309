// Command measure measures the system. It is a separate program, so that the local cloud starts without compiling it.
// The command emulators compiles and runs it:
//
//	go run ./emulators bench    count what operations cost, and price a month
//	go run ./emulators load     measure what hostile clients take from others
package main

import (
	"context"
	"errors"

	"agents.example/controlplane/emulators/command"
)

func main() { command.Main(run) }

func run(ctx context.Context, args []string) error {
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
