package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"

	"agents.example/controlplane/emulators/command"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/load"
)

// measureLoad measures what hostile clients take from others and prints it.
func measureLoad(ctx context.Context, args []string) error {
	o := load.Options{}
	flags := command.NewFlags("load", "Measures what good clients of the API see without and with a hostile client, "+
		"in turns, on the deployed binaries.\nIt fails if an attack adds errors, or makes the 99th percentile "+
		"1.5 times longer. "+
		"Times are noisy on a busy machine.\nAttacks: "+load.Attacks())
	only := flags.String("run", "", "measure only the attacks that match this `regexp`")
	flags.IntVar(&o.Rounds, "rounds", 3, "alternate this `number` of times between without and with")
	flags.DurationVar(&o.Phase, "phase", 0, "measure for this `time` in each turn (default 10s)")
	flags.IntVar(&o.Repeats, "repeat", 1, "measure an attack that has an effect this `number` of times again")
	flags.StringVar(&o.Binaries, "binaries", "", "measure the binaries in this `directory`, such as those of an earlier "+
		"version (default: build them)")
	flags.TextVar(&o.Emulators, "emulators", gcloud.Embedded,
		"`which` Firestore and Pub/Sub emulators to use: embedded, official or auto (official if they are installed)")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	if o.Attacks, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	if o.Dir, err = os.MkdirTemp("", "agents-load-"); err != nil {
		return err
	}
	logs, err := command.LogTo(o.Dir + "/functions.log")
	if err != nil {
		return err
	}
	out := command.NewTerminal(os.Stdout)
	out.Line("Measuring the effect of hostile clients (logs: %s)", o.Dir)
	o.Progress = out
	report, err := load.Run(ctx, o)
	if err = errors.Join(err, logs.Close()); err != nil {
		return err
	}
	if err := report.Print(out); err != nil {
		return err
	}
	if !report.OK() {
		return errors.New("an attack affects good clients; if the machine is busy, repeat the measurement")
	}
	return os.RemoveAll(o.Dir) // the logs are kept only after a failure
}
