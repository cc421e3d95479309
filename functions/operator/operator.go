// Package operator holds what the operator of the service can do that its customers can't: see every organization, set
// plans, suspend and resume, and find out why an agent is stuck. It knows the commands and what they print. It does not
// know who may run them: that is who may reach the database.
//
// Whatever is done to, or looked up of, an organization is an entry in that organization's audit log.
package operator

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
)

// Commands is what the commands work with.
type Commands struct {
	Accounts billing.Store
	Counts   organization.Counts
	Agents   agent.Store
	Records  agent.WorkerStore
	Nudger   agent.Nudger
	Audit    audit.Log
	// Name says in the audit log who the operator is.
	Name string
	// Now is the clock.
	Now func() time.Time
	// Out is written to.
	Out io.Writer
}

// command is one thing that the operator can do.
type command struct {
	name    string
	usage   string
	summary string
	run     func(ctx context.Context, d Commands, o options) error
}

// options are the flags of all commands; each takes those that its usage names.
type options struct {
	organization string
	agent        string
	plan         string
	force        bool
}

func commands() []command {
	return []command{
		{"list", "", "list the organizations", list},
		{"show", "-organization ORG", "show an organization with what it holds", show},
		{"set-plan", "-organization ORG -plan PLAN [-force]",
			"put an organization on a plan; with -force also one that it is too large for", setPlan},
		{"suspend", "-organization ORG", "withhold the service: agents are paused, nothing can be started", suspend},
		{"resume", "-organization ORG", "end a suspension: what was paused for it comes back", resume},
		{"nudge", "-agent AGENT", "have a worker look at an agent", nudge},
		{"story", "-agent AGENT", "tell what happened to an agent, and what it waits for", story},
	}
}

// Usage says what can be done.
func Usage(w io.Writer) {
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-9s %s\n            %s\n", c.name, c.usage, c.summary)
	}
}

// Run carries out one command with its flags.
func (d Commands) Run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("say what to do: list, show, set-plan, suspend, resume, nudge or story")
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		o, err := c.parse(args[1:])
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if err := c.run(ctx, d, o); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		return nil
	}
	return fmt.Errorf("there is no command %q: list, show, set-plan, suspend, resume, nudge and story are", args[0])
}

// parse reads the flags that the usage names; those not in brackets are required.
func (c command) parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	texts := map[string]*string{"organization": &o.organization, "agent": &o.agent, "plan": &o.plan}
	for name, to := range texts {
		if strings.Contains(c.usage, "-"+name+" ") {
			flags.StringVar(to, name, "", "")
		}
	}
	if strings.Contains(c.usage, "[-force]") {
		flags.BoolVar(&o.force, "force", false, "")
	}
	if err := flags.Parse(args); err != nil {
		return o, fmt.Errorf("%w; it is called as: %s %s", err, c.name, c.usage)
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag; it is called as: %s %s", flags.Arg(0), c.name, c.usage)
	}
	for name, value := range texts {
		if strings.Contains(c.usage, "-"+name+" ") && *value == "" {
			return o, fmt.Errorf("-%s is missing; it is called as: %s %s", name, c.name, c.usage)
		}
	}
	return o, nil
}

// on returns a context in which the operator acts on an organization.
func (d Commands) on(ctx context.Context, organizationID, action string) context.Context {
	ctx = identity.With(ctx, identity.Caller{
		Type: identity.Operator, ID: d.Name, OrganizationID: organizationID, Role: identity.RoleAdmin,
	})
	return audit.With(ctx, audit.Request{Action: action, RequestID: uuid.NewString(), UserAgent: "operator"})
}

// record writes the entry of an act that changes no record.
func (d Commands) record(ctx context.Context, target audit.Target) error {
	caller, request := identity.From(ctx), audit.From(ctx)
	return d.Audit.Append(ctx, audit.Entry{
		ID: uuid.NewString(), OrganizationID: caller.OrganizationID, Actor: caller, Action: request.Action,
		Target:  target,
		Outcome: audit.Succeeded, Request: request,
	})
}

func (d Commands) printf(format string, args ...any) { fmt.Fprintf(d.Out, format, args...) }
