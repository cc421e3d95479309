package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"agents.example/controlplane/emulators/cloud"
	"agents.example/controlplane/emulators/gcloud"
	"agents.example/controlplane/emulators/terminal"
	"agents.example/controlplane/shared/function"
)

// settings is what the command line says.
type settings struct {
	addr       string
	kubeconfig string
	ready      string
	emulators  gcloud.Choice
	once       bool
	limits     bool
	payments   bool
}

func parse(args []string) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("emulators", flag.ContinueOnError)
	flags.StringVar(&s.addr, "addr", "", "address of the API; a free port on 127.0.0.1 otherwise")
	flags.StringVar(&s.kubeconfig, "kubeconfig", "", "use the cluster of this kubeconfig instead of a local one")
	flags.TextVar(&s.emulators, "emulators", gcloud.Auto,
		"`which` emulators of Firestore and Pub/Sub: official, embedded (in this program), or auto, the official ones where they are installed")
	flags.StringVar(&s.ready, "ready", "", "write what a client has to know to this file, as JSON, when ready")
	flags.BoolVar(&s.once, "once", false, "run the main job, delete the agent, and end")
	flags.BoolVar(&s.limits, "production-limits", false,
		"enforce the documented rate limits instead of a hundred times them")
	flags.BoolVar(&s.payments, "payments", false, "take payments through a local Stripe, whose pages pay at a visit")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown command %q: want no command, token or bench", flags.Arg(0))
	}
	return s, nil
}

// up starts the cloud, runs the main job and stays.
func up(ctx context.Context, args []string) (err error) {
	s, err := parse(args)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "agents-cloud-")
	if err != nil {
		return err
	}
	logs, err := logTo(filepath.Join(dir, "functions.log"))
	if err != nil {
		return err
	}
	out := terminal.New(os.Stdout)
	began := time.Now()
	out.Line("Starting the cloud (logs in %s)", dir)
	c, err := cloud.Start(ctx, cloud.Options{
		Dir: dir, Addr: s.addr, Kubeconfig: s.kubeconfig, Progress: out, ProductionLimits: s.limits,
		Emulators:       s.emulators,
		Payments:        s.payments,
		AttachFirestore: os.Getenv("FIRESTORE_EMULATOR_HOST"), AttachPubSub: os.Getenv("PUBSUB_EMULATOR_HOST"),
	})
	if err != nil {
		return errors.Join(err, logs.Close())
	}
	defer func() {
		err = errors.Join(err, c.Close(), logs.Close())
		if err == nil {
			err = os.RemoveAll(dir) // logs are worth keeping only when something went wrong
		}
	}()
	out.Line("Ready after %s", time.Since(began).Round(100*time.Millisecond))
	return serve(ctx, s, c, out)
}

// serve runs the main job on a running cloud, and stays until it is told to end or a part dies.
func serve(ctx context.Context, s settings, c *cloud.Cloud, out *terminal.Terminal) error {
	if err := publish(s, c.Ready); err != nil {
		return err
	}
	job := mainJob{client: newClient(c.Ready), agents: c.Client, out: out}
	id, err := job.run(ctx)
	if err != nil {
		return err
	}
	if s.once {
		return job.remove(ctx, id, c.Ready.Kubeconfig)
	}
	goOn(out, c.Ready, id)
	select {
	case <-ctx.Done():
		out.Line("Ending")
		return nil
	case err := <-c.Died():
		return err
	}
}

// publish leaves the facts of the cloud where other commands look for them.
func publish(s settings, facts cloud.Ready) error {
	latest, err := latestFile()
	if err == nil {
		err = facts.WriteFile(latest)
	}
	if err == nil && s.ready != "" {
		err = facts.WriteFile(s.ready)
	}
	return err
}

// logTo sends the functions' log lines to a file: the terminal tells the story.
func logTo(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	slog.SetDefault(function.NewLogger(f, slog.LevelInfo, ""))
	return f, nil
}

// goOn says what can be done with a cloud that stays up.
func goOn(out *terminal.Terminal, r cloud.Ready, id string) {
	out.Line("")
	out.Line("  Base URL     %s", r.BaseURL)
	out.Line("  API key      %s", r.APIKey)
	out.Line("  Kubernetes   kubectl --kubeconfig %s get all -n agent-%s", r.Kubeconfig, id)
	out.Line("  Session JWT  go run ./emulators token -organization %s -role admin", r.OrganizationID)
	out.Line("")
	out.Line("  curl -H 'Authorization: Bearer %s' %s/api/v1/agents", r.APIKey, r.BaseURL)
	out.Line("  curl -H 'Authorization: Bearer %s' %s/api/v1/agents/%s", r.APIKey, r.BaseURL, id)
	out.Line("  curl -H 'Authorization: Bearer %s' %s/api/v1/agents/%s/metrics", r.APIKey, r.BaseURL, id)
	out.Line("  curl -H 'Authorization: Bearer %s' -X POST %s/api/v1/agents/%s/credentials/reveal", r.APIKey, r.BaseURL,
		id)
	out.Line("")
	out.Line("Up until Ctrl-C.")
}
