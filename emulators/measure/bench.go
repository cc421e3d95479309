package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"agents.example/controlplane/emulators/bench"
	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/load"
	"agents.example/controlplane/emulators/node"
)

// The values of the flag -node.
const (
	simulatedNode = "simulated"
	realNode      = "real"
)

// nodeAgents is how many agents of each kind a benchmark of a real node creates.
const nodeAgents = 10

// measureNode measures agents on a real node and prints the figures.
func measureNode(ctx context.Context, dir string) error {
	if err := node.Supported(ctx, os.Stdout); err != nil {
		return err
	}
	logs, err := command.LogTo(dir + "/functions.log")
	if err != nil {
		return err
	}
	runc, _ := exec.LookPath("runc") // empty where it is not installed
	all, err := load.MeasureNodes(ctx, load.NodeOptions{
		Dir: dir, Runc: runc, Agents: nodeAgents, Progress: command.NewTerminal(os.Stdout),
	})
	if err = errors.Join(err, logs.Close()); err != nil {
		return err
	}
	return load.PrintNodes(os.Stdout, all)
}

// countCosts counts what the system spends and prints it.
func countCosts(ctx context.Context, args []string) error {
	flags := command.NewFlags("bench", "Counts what operations of the control plane cost in Google Cloud, prices a "+
		"month, and times provisioning and proxies.")
	agents := flags.Int("agents", 1000, "price a month of this `number` of running agents")
	var emulators gcloud.Choice
	flags.TextVar(&emulators, "emulators", gcloud.Embedded,
		"`which` Firestore emulator to use: embedded, official or auto (official if it is installed)")
	var kind cluster.Kind
	flags.TextVar(&kind, "cluster", cluster.Embedded, "`which` API server and controllers to use: embedded or real")
	provisions := flags.Int("provisions", 200, "time the provisioning of this `number` of agents; 0 times none")
	rows := flags.String("rows", "", "measure these rows only, such as `P2,P7`")
	profile := flags.String("profile", "", "write a CPU profile of reading an agent into this `directory`")
	lenient := flags.Bool("lenient", false, "succeed if only times and memory miss their targets, as on a busy machine")
	pods := flags.String("node", simulatedNode, "`where` pods run: real measures containers instead; needs Linux and root")
	without := flags.Bool("without-cluster", false, "leave out the figures that need the local Kubernetes cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agents-bench-")
	if err != nil {
		return err
	}
	switch *pods {
	case simulatedNode:
	case realNode:
		return errors.Join(measureNode(ctx, dir), os.RemoveAll(dir))
	default:
		return fmt.Errorf("unknown value %q of -node; want simulated or real", *pods)
	}
	logs, err := command.LogTo(dir + "/functions.log")
	if err != nil {
		return err
	}
	out := command.NewTerminal(os.Stdout)
	out.Line("Counting what operations cost (logs: %s)", dir)
	report, err := bench.Run(ctx, bench.Options{
		Dir: dir, Emulators: emulators, AttachFirestore: os.Getenv("FIRESTORE_EMULATOR_HOST"), Agents: *agents,
		Provisions: *provisions, Rows: strings.FieldsFunc(*rows, func(r rune) bool { return r == ',' }),
		Cluster: kind, NoCluster: *without, Profile: *profile, Progress: out,
	})
	if err = errors.Join(err, logs.Close()); err != nil {
		return err
	}
	if err := report.Print(out); err != nil {
		return err
	}
	for _, row := range report.Rows {
		if !row.OK() && (!row.Timed || !*lenient) {
			return fmt.Errorf("%s, %s: above the target", row.ID, row.What)
		}
	}
	return os.RemoveAll(dir) // the logs are kept only after a failure
}
