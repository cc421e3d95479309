package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/dataplane"
	"agents.example/controlplane/emulators/node"
)

// part is something that is built ahead of time.
type part struct {
	name string
	// time estimates how long the build takes: not at all for what is there. Nil is for what the go command leaves
	// alone when it is up to date.
	time  func() (time.Duration, error)
	build func(context.Context, io.Writer) (path string, err error)
}

// build builds ahead of time what takes long to compile, so that no start and no test waits for it: the real Kubernetes
// API server, the programs that a cloud as deployed and its pods run, and a real node's programs on request.
func build(ctx context.Context, args []string) error {
	parts, err := partsToBuild(args)
	if err != nil {
		return err
	}
	for _, p := range parts {
		state := "built"
		if p.time != nil {
			needed, err := p.time()
			if err != nil {
				return err
			}
			if needed == 0 {
				state = "already built"
			}
		}
		path, err := p.build(ctx, os.Stdout)
		if err != nil {
			return err
		}
		fmt.Printf("%s is %s: %s\n", p.name, state, path)
	}
	return nil
}

// partsToBuild parses the arguments of the command build. The node is first, because the cluster then finds most of its
// packages compiled.
func partsToBuild(args []string) ([]part, error) {
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "Usage: go run ./emulators build [-node real]\n\nBuilds the real Kubernetes "+
			"API server, and the programs of functions and pods.\nOtherwise the first start with -cluster real, or "+
			"the first test that needs them, does.")
		flags.PrintDefaults()
	}
	kind := flags.String("node", "simulated", "build for this `kind` of nodes: simulated, or real, which needs Linux")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("build takes no arguments, not %q", flags.Arg(0))
	}
	parts := []part{
		{name: "The real Kubernetes API server", time: cluster.BuildTime, build: cluster.Build},
		programs("functions", cloud.BuildFunctions), programs("pods", dataplane.Build),
	}
	switch *kind {
	case "simulated":
		return parts, nil
	case "real":
		node := part{name: "The real Kubernetes node", time: node.BuildTime, build: node.Build}
		return append([]part{node}, append(parts, programs("images", dataplane.BuildImage))...), nil
	}
	return nil, fmt.Errorf("unknown kind of nodes %q; want simulated or real", *kind)
}

// programs is the part of the programs that something runs.
func programs(of string, build func(context.Context) (string, error)) part {
	return part{
		name:  "The folder with the programs of " + of,
		build: func(ctx context.Context, _ io.Writer) (string, error) { return build(ctx) },
	}
}
