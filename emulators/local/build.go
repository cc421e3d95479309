package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/node"
)

// part is something that is built ahead of time.
type part struct {
	name  string
	time  func() (time.Duration, error)
	build func(context.Context, io.Writer) (path string, err error)
}

// build builds the real Kubernetes API server ahead of time, for machines on which the first start or test with it
// should be quick, and a real node's programs on request.
func build(ctx context.Context, args []string) error {
	parts, err := partsToBuild(args)
	if err != nil {
		return err
	}
	for _, p := range parts {
		needed, err := p.time()
		if err != nil {
			return err
		}
		path, err := p.build(ctx, os.Stdout)
		switch {
		case err != nil:
			return err
		case needed == 0:
			fmt.Printf("%s is already built: %s\n", p.name, path)
		default:
			fmt.Printf("%s is built: %s\n", p.name, path)
		}
	}
	return nil
}

// partsToBuild parses the arguments of the command build. The node is first, because the cluster then finds most of its
// packages compiled.
func partsToBuild(args []string) ([]part, error) {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: go run ./emulators build [-node real]\n\nBuilds the real Kubernetes "+
			"API server.",
			"Otherwise the first start with -cluster real, or the first\ntest that needs it, does.")
		flags.PrintDefaults()
	}
	kind := flags.String("node", "simulated", "build for this `kind` of nodes: simulated, or real, which needs Linux")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("build takes no arguments, not %q", flags.Arg(0))
	}
	kubernetes := part{"The real Kubernetes API server", cluster.BuildTime, cluster.Build}
	switch *kind {
	case "simulated":
		return []part{kubernetes}, nil
	case "real":
		return []part{{"The real Kubernetes node", node.BuildTime, node.Build}, kubernetes}, nil
	}
	return nil, fmt.Errorf("unknown kind of nodes %q; want simulated or real", *kind)
}
