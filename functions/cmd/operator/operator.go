package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/webhook"
)

// operator runs the commands.
type operator struct {
	Accounts billing.Store
	Counts   organization.Counts
	Agents   agent.Store
	Records  agent.WorkerStore
	// AllAgents lists the agents of all organizations.
	AllAgents agentLister
	Nudger    agent.Nudger
	Audit     audit.Log
	Events    event.Log
	// Images is the catalog of images, and Cells its record in the clusters.
	Images image.Store
	Cells  imageAdmission
	// Placement are the cells and their regions.
	Placement agent.Cells
	// Releases are the records of releases.
	Releases releaseStore
	// Keys are the API keys, and Peppers those that functions accept.
	Keys    keyStore
	Peppers apikey.Peppers
	// EachWebhook visits the webhooks of all organizations.
	EachWebhook func(ctx context.Context, visit func(webhook.Webhook) error) error
	// Name is the verified identity of the operator, the actor in audit log entries. Note is what the operator adds.
	Name, Note string
	// Now is the clock, and After waits; nil means time.After.
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	// Out receives the output.
	Out io.Writer
	// Err receives warnings; nil discards them.
	Err io.Writer
	// In is the standard input.
	In io.Reader
}

// keyStore has the API keys of all organizations.
type keyStore interface {
	apikey.Store
	// EachKey visits all keys.
	EachKey(ctx context.Context, visit func(apikey.Key) error) error
}

// agentLister is the part of firestore.WorkerStore that lists all agents.
type agentLister interface {
	ListAll(ctx context.Context, after string, limit int) (page.Page[agent.Agent], error)
}

// command is one command.
type command struct {
	name    string
	usage   string
	summary string
	// operand is the name of the argument that is no flag; empty for none.
	operand string
	// offline commands need neither the database nor a configuration.
	offline bool
	run     func(ctx context.Context, d operator, o options) error
}

// options are the flags of all commands. Each command accepts those in its usage.
type options struct {
	organization string
	agent        string
	plan         string
	cell         string
	name         string
	role         string
	private      string
	present      string
	since        string
	image        string
	operand      string
	waves        string
	soak         string
	maxFailed    string
	onlyCell     string
	to           string
	atMost       string
	force        bool
	dryRun       bool
	wait         bool
	json         bool
	watch        bool
}

func commands() []command {
	all := []command{
		{name: "list", summary: "list the organizations", run: list},
		{
			name: "show", usage: "-organization ORG", summary: "show an organization with its usage and limits",
			run: show,
		},
		{
			name: "set-plan", usage: "-organization ORG -plan PLAN [-force]", run: setPlan,
			summary: "set the plan of an organization; -force allows a plan that is too small for its usage",
		},
		{
			name: "suspend", usage: "-organization ORG", run: suspend,
			summary: "suspend an organization: its agents are paused and none can be started",
		},
		{
			name: "resume", usage: "-organization ORG", run: resume,
			summary: "end a suspension: the agents that it paused are resumed",
		},
		{
			name: "agents", usage: "-cell CELL", summary: "list the agents of a cell, of all organizations",
			run: agentsOfCell,
		},
		{name: "nudge", usage: "-agent AGENT", summary: "make a worker reconcile an agent", run: nudge},
		{
			name: describeCommand, usage: "-agent AGENT", run: describe,
			summary: "show the history of an agent and what it waits for",
		},
		{
			name: "apikeys create", usage: "-organization ORG -name NAME -role ROLE [-force]", run: createAPIKey,
			summary: "create an API key of an organization and print it once; it needs API_KEY_PEPPER; -force allows " +
				"a pepper that no key is under",
		},
		{
			name: "keys status", run: showKeys,
			summary: "count the API keys by pepper; it needs the peppers of the functions",
		},
		{
			name: "webhooks status", usage: "-since DATE", run: showWebhooks,
			summary: "count the webhooks whose secret was made before a date, such as that of a new key",
		},
		{
			name: "keys create", usage: "-private FILE -present FILE", run: createSigningKey, offline: true,
			summary: "create a signing key of dashboards and receipts in a new file, and print its public key with " +
				"the present ones; - reads these from standard input",
		},
	}
	return slices.Concat(all, moveCommands(), imageCommands(), releaseCommands())
}

const (
	describeCommand = "describe"
	// formerDescribeCommand is the name of describe in the previous release.
	formerDescribeCommand = "story"
)

// commandNames returns the names of all commands, separated by commas.
func commandNames() string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// find returns the command that the arguments name, and its flags. Some names have two words, the first of which may be
// a name, too.
func find(args []string) (c command, flags []string, ok bool) {
	longest := 0
	for _, each := range commands() {
		words := strings.Fields(each.name)
		if len(words) > longest && len(args) >= len(words) && slices.Equal(args[:len(words)], words) {
			c, flags, ok, longest = each, args[len(words):], true, len(words)
		}
	}
	return c, flags, ok
}

// printCommands prints the commands.
func printCommands(w io.Writer) {
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-14s %s\n                 %s\n", c.name, c.usage, c.summary)
	}
}

// run runs one command with its flags.
func (d operator) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("command missing; want one of %s", commandNames())
	}
	if args[0] == formerDescribeCommand {
		args = slices.Concat([]string{describeCommand}, args[1:])
		if d.Err != nil {
			fmt.Fprintf(d.Err, "command %q is deprecated and will be removed in the next release; use %q\n",
				formerDescribeCommand, describeCommand)
		}
	}
	c, rest, ok := find(args)
	if !ok {
		return fmt.Errorf("unknown command %q; want one of %s", args[0], commandNames())
	}
	o, err := c.parse(rest)
	if err == nil {
		err = c.run(ctx, d, o)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.name, err)
	}
	return nil
}

// parse parses the flags in the usage. Those without brackets are required.
func (c command) parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	texts := map[string]*string{
		"organization": &o.organization, "agent": &o.agent, "plan": &o.plan, "name": &o.name, "role": &o.role,
		"private": &o.private, "present": &o.present, "since": &o.since, "cell": &o.cell,
		"image": &o.image, "waves": &o.waves, "soak": &o.soak, "max-failed": &o.maxFailed, "only-cell": &o.onlyCell,
		"to": &o.to, "at-most": &o.atMost,
	}
	for name, to := range texts {
		if strings.Contains(c.usage, "-"+name+" ") {
			flags.StringVar(to, name, "", "")
		}
	}
	for name, to := range map[string]*bool{
		"force": &o.force, "json": &o.json, "watch": &o.watch, "dry-run": &o.dryRun, "wait": &o.wait,
	} {
		if strings.Contains(c.usage, "[-"+name+"]") {
			flags.BoolVar(to, name, false, "")
		}
	}
	err := flags.Parse(args)
	if c.operand != "" && err == nil {
		if o.operand = flags.Arg(0); o.operand == "" {
			return o, fmt.Errorf("%s is missing; usage: %s %s", c.operand, c.name, c.usage)
		}
		err = flags.Parse(flags.Args()[1:])
	}
	if err != nil {
		return o, fmt.Errorf("%w; usage: %s %s", err, c.name, c.usage)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag; usage: %s %s", flags.Arg(0), c.name, c.usage)
	}
	if name := emptyFlag(flags); name != "" {
		return o, fmt.Errorf("-%s is empty; usage: %s %s", name, c.name, c.usage)
	}
	for name, value := range texts {
		if strings.Contains(" "+c.usage, " -"+name+" ") && *value == "" {
			return o, fmt.Errorf("-%s is missing; usage: %s %s", name, c.name, c.usage)
		}
	}
	return o, nil
}

// emptyFlag names a flag that is given without a value, as by a variable of a shell that is not set; "" if there is
// none. Without the flag, a command may be about more, such as all cells.
func emptyFlag(flags *flag.FlagSet) (name string) {
	flags.Visit(func(f *flag.Flag) {
		if f.Value.String() == "" {
			name = f.Name
		}
	})
	return name
}

// on returns a context with the operator as the caller in an organization.
func (d operator) on(ctx context.Context, organizationID, action string) context.Context {
	ctx = call.As(ctx, identity.Caller{
		Type: identity.Operator, ID: d.Name, OrganizationID: organizationID, Role: identity.RoleAdmin,
	})
	return call.WithRequest(ctx, audit.Request{
		Action: action, RequestID: uuid.NewString(), UserAgent: "operator (" + d.Note + ")",
	})
}

// record adds the audit entry of a command that changes no record.
func (d operator) record(ctx context.Context, target audit.Target) error {
	made := call.From(ctx)
	caller, request := made.Caller, made.Request
	return d.Audit.Append(ctx, audit.Entry{
		ID: uuid.NewString(), OrganizationID: caller.OrganizationID, Actor: caller, Action: request.Action,
		Target:  target,
		Outcome: audit.Succeeded, Request: request,
	})
}

func (d operator) printf(format string, args ...any) { fmt.Fprintf(d.Out, format, args...) }
