package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/infra/firestore"
	"agents.example/controlplane/infra/gke/admission"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/infra/googleidentity"
	"agents.example/controlplane/infra/pubsub"
	"agents.example/controlplane/shared/webhook"
)

func usage(w io.Writer) {
	fmt.Fprintln(w, "operator [-ready FILE] [-as NOTE] COMMAND [FLAGS]")
	printCommands(w)
	fmt.Fprintln(w, "  -ready    the ready file of a local cloud; by default the environment names the database")
	fmt.Fprintln(w, "  -as       a note for the audit log, such as your name; by default OPERATOR. The log's actor is")
	fmt.Fprintln(w, "            the email address of your Google credentials, and with a local cloud the note")
}

// run runs one command.
func run(ctx context.Context, args []string, out io.Writer) error {
	return runAt(ctx, args, out, time.Now)
}

// runAt is run with a clock.
func runAt(ctx context.Context, args []string, out io.Writer, clock func() time.Time) (err error) {
	flags := flag.NewFlagSet("operator", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	ready := flags.String("ready", "", "")
	as := flags.String("as", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if name := emptyFlag(flags); name != "" {
		return fmt.Errorf("-%s is empty", name)
	}
	if c, _, ok := find(flags.Args()); ok && c.offline {
		return operator{Out: out, Err: os.Stderr, In: os.Stdin}.run(ctx, flags.Args())
	}
	c, err := read(ctx, *ready)
	if err != nil {
		return err
	}
	if *as != "" {
		c.Note = *as
	}
	name, err := actor(ctx, c, func(ctx context.Context) (string, error) { return googleidentity.Email(ctx) })
	if err != nil {
		return err
	}
	// Deferred calls close the records first: what they still publish needs the topics.
	nudges, err := pubsub.Open(ctx, pubsub.Options{
		ProjectID: c.ProjectID, Topic: c.NudgeTopic, WebhookTopic: c.WebhookTopic, EmulatorHost: c.PubSubEmulator,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, nudges.Close()) }()
	records, err := firestore.Open(ctx, firestore.Options{
		ProjectID: c.ProjectID, DatabaseID: c.Database, EmulatorHost: c.FirestoreEmulator, Now: clock,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	if err := checkClock(ctx, records, clock); err != nil {
		return err
	}
	notifier := &webhook.Notifier{Store: records.WebhookWorkerStore(), Nudger: nudges, Now: clock}
	records.OnEvents(notifier.EventCommitted)
	cells := admission.New(ctx, connections(c.Cells))
	defer func() { err = errors.Join(err, cells.Close()) }()
	return operator{
		Accounts: records.Accounts(), Counts: records.Counts(), Agents: records.Agents(nudges),
		Records: records.WorkerStore(), AllAgents: records.WorkerStore(),
		Nudger: nudges, Audit: records.AuditLog(), Events: records.EventLog(),
		Images: records.Images(), Cells: cells, Placement: c.Cells.Placement(), Releases: records.Releases(),
		Keys: records.Keys(), Peppers: c.AcceptedPeppers(), EachWebhook: records.Webhooks().EachWebhook,
		Name: name, Note: c.Note, Now: clock, Out: out, Err: os.Stderr, In: os.Stdin,
	}.run(ctx, flags.Args())
}

// maxSkew is by how much the clock of the operator's machine may differ from the database's. Seals of audit logs expect
// entries to be half an hour late at most.
const maxSkew = 5 * time.Minute

// checkClock refuses a clock that is wrong, as that of a laptop after a sleep: a verification would take the entries of
// audit logs with its times for ones that were added later.
func checkClock(ctx context.Context, records *firestore.Client, clock func() time.Time) error {
	database, err := records.DatabaseNow(ctx)
	if err != nil {
		return err
	}
	if skew := clock().Sub(database); skew.Abs() > maxSkew {
		return fmt.Errorf("the clock of this machine differs from that of the database by %s: set it, because audit "+
			"logs would have wrong times", skew.Round(time.Second))
	}
	return nil
}

// connections returns the cells as connections to them need them.
func connections(cells config.Cells) []connect.Cell {
	all := make([]connect.Cell, len(cells))
	for i, c := range cells {
		all[i] = connect.Cell{Name: c.Name, Endpoint: c.Endpoint, Kubeconfig: c.Kubeconfig}
	}
	return all
}

// actor returns who runs the command: the owner of the Google credentials, so that an operator can't sign with another
// name. The emulator of a local cloud takes no credentials, so there it is the note.
func actor(ctx context.Context, c config.Operator, credentials func(context.Context) (string, error)) (string, error) {
	if c.FirestoreEmulator != "" {
		return c.Note, nil
	}
	email, err := credentials(ctx)
	if err != nil {
		return "", fmt.Errorf("the audit log needs your Google identity: %w; "+
			"run gcloud auth application-default login", err)
	}
	return email, nil
}

// read reads the configuration from the environment or, if ready is set, from the ready file of a local cloud.
func read(ctx context.Context, ready string) (config.Operator, error) {
	if ready == "" {
		return config.Read[config.Operator](ctx, envconfig.OsLookuper())
	}
	local, err := config.ReadyFile(ready)
	if err != nil {
		return config.Operator{}, err
	}
	return config.Read[config.Operator](ctx, local)
}
