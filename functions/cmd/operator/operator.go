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
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
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
	// Name is the verified identity of the operator, the actor in audit log entries. Note is what the operator adds.
	Name, Note string
	// Now is the clock.
	Now func() time.Time
	// Out receives the output.
	Out io.Writer
	// Err receives warnings; nil discards them.
	Err io.Writer
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
	run     func(ctx context.Context, d operator, o options) error
}

// options are the flags of all commands. Each command accepts those in its usage.
type options struct {
	organization string
	agent        string
	plan         string
	cell         string
	force        bool
}

func commands() []command {
	return []command{
		{"list", "", "list the organizations", list},
		{"show", "-organization ORG", "show an organization with its usage and limits", show},
		{
			"set-plan", "-organization ORG -plan PLAN [-force]",
			"set the plan of an organization; -force allows a plan that is too small for its usage", setPlan,
		},
		{
			"suspend", "-organization ORG", "suspend an organization: its agents are paused and none can be started",
			suspend,
		},
		{"resume", "-organization ORG", "end a suspension: the agents that it paused are resumed", resume},
		{"agents", "-cell CELL", "list the agents of a cell, of all organizations", agentsOfCell},
		{"nudge", "-agent AGENT", "make a worker reconcile an agent", nudge},
		{describeCommand, "-agent AGENT", "show the history of an agent and what it waits for", describe},
	}
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

// printCommands prints the commands.
func printCommands(w io.Writer) {
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n            %s\n", c.name, c.usage, c.summary)
	}
}

// run runs one command with its flags.
func (d operator) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("command missing; want one of %s", commandNames())
	}
	name := args[0]
	if name == formerDescribeCommand {
		name = describeCommand
		if d.Err != nil {
			fmt.Fprintf(d.Err, "command %q is deprecated and will be removed in the next release; use %q\n",
				formerDescribeCommand, describeCommand)
		}
	}
	all := commands()
	i := slices.IndexFunc(all, func(c command) bool { return c.name == name })
	if i < 0 {
		return fmt.Errorf("unknown command %q; want one of %s", name, commandNames())
	}
	c := all[i]
	o, err := c.parse(args[1:])
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
		"organization": &o.organization, "agent": &o.agent, "plan": &o.plan, "cell": &o.cell,
	}
	for name, to := range texts {
		if strings.Contains(c.usage, "-"+name+" ") {
			flags.StringVar(to, name, "", "")
		}
	}
	if strings.Contains(c.usage, "[-force]") {
		flags.BoolVar(&o.force, "force", false, "")
	}
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("%w; usage: %s %s", err, c.name, c.usage)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is not a flag; usage: %s %s", flags.Arg(0), c.name, c.usage)
	}
	for name, value := range texts {
		if strings.Contains(c.usage, "-"+name+" ") && *value == "" {
			return o, fmt.Errorf("-%s is missing; usage: %s %s", name, c.name, c.usage)
		}
	}
	return o, nil
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
