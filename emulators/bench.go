package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"agents.example/controlplane/emulators/bench"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/terminal"
)

// count counts what the system spends and prints it.
func count(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("emulators bench", flag.ContinueOnError)
	agents := flags.Int("agents", 1000, "how many agents the month is of")
	var emulators gcloud.Choice
	flags.TextVar(&emulators, "emulators", gcloud.Auto, "`which` emulator of Firestore: official, embedded or auto")
	without := flags.Bool("without-cluster", false, "leave out what needs the local Kubernetes cluster")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agents-bench-")
	if err != nil {
		return err
	}
	logs, err := logTo(dir + "/functions.log")
	if err != nil {
		return err
	}
	out := terminal.New(os.Stdout)
	out.Line("Counting (logs in %s)", dir)
	report, err := bench.Run(ctx, bench.Options{
		Dir: dir, Emulators: emulators, AttachFirestore: os.Getenv("FIRESTORE_EMULATOR_HOST"), Agents: *agents,
		NoCluster: *without, Progress: out,
	})
	if err = errors.Join(err, logs.Close()); err != nil {
		return err
	}
	if err := report.Print(out); err != nil {
		return err
	}
	for _, row := range report.Rows {
		if !row.OK() {
			return fmt.Errorf("%s, %s: the figure missed its aim", row.ID, row.What)
		}
	}
	return os.RemoveAll(dir) // logs are worth keeping only when something went wrong
}
