package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"agents.example/controlplane/emulators/cluster"
)

// build builds the local Kubernetes cluster ahead of time, for machines on which the first start or test should be
// quick.
func build(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: go run ./emulators build\n\nBuilds the local Kubernetes cluster.",
			"Otherwise the first start, or the first test that needs it, does.")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("build takes no arguments, not %q", flags.Arg(0))
	}
	needed, err := cluster.BuildTime()
	if err != nil {
		return err
	}
	binary, err := cluster.Build(ctx, os.Stdout)
	switch {
	case err != nil:
		return err
	case needed == 0:
		fmt.Printf("The local Kubernetes cluster is already built: %s\n", binary)
	default:
		fmt.Printf("The binary is %s\n", binary)
	}
	return nil
}
