package agentctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// severalError is the end of a command for several objects, of which some failed. The exit code is that of the first.
type severalError struct {
	text string
	// failed says what failed, in the order of the arguments.
	failed []failedObject
}

type failedObject struct {
	name string
	err  error
}

// Error implements error.
func (e severalError) Error() string { return e.text }

// severally returns the error of a command for several objects; nil if all succeeded.
func severally(failed []failedObject, all int, what string) error {
	if len(failed) == 0 {
		return nil
	}
	return severalError{fmt.Sprintf("%d of %d %s failed", len(failed), all, what), failed}
}

// printSeveral prints what failed for which object.
func (t *tool) printSeveral(c *cobra.Command, e severalError) {
	w := t.stderr()
	fmt.Fprintln(w, w.in(red, "Error:"), harmlessLines(e.text))
	for _, f := range e.failed {
		text, next := t.explain(f.err)
		if api := client.AsError(f.err); api != nil {
			text, next = forPeople(api.Detail), t.remedies(api)
			for _, v := range api.Violations {
				place := violated(c, v)
				if c.Name() == "apply" {
					place = inManifest(v)
				}
				text += fmt.Sprintf("\n    %s: %s", place, forPeople(v.Msg))
			}
			if api.RequestID != "" {
				text += fmt.Sprintf(" (status %d %s, request %s)", api.Status, api.Code, api.RequestID)
			}
		}
		fmt.Fprintf(w, "  %s: %s\n", harmless(f.name), harmlessLines(text))
		for _, step := range append(nextSteps(f.err), next...) {
			fmt.Fprintln(w, "    "+harmlessLines(step))
		}
	}
}

// severalAgents returns a command for one agent or several.
func (t *tool) severalAgents(name, short, operationID string, run func(context.Context, *client.Client,
	[]*client.Agent) error,
) *cobra.Command {
	return &cobra.Command{
		Use: name + " AGENT...", Short: short, Args: cobra.MinimumNArgs(1), Annotations: sends(operationID),
		ValidArgsFunction: t.completeMoreAgents,
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			agents := make([]*client.Agent, len(args))
			var err error
			for i, arg := range args { // all of them must exist before the first is changed
				if agents[i], err = t.agent(ctx, api, arg); err != nil {
					return err
				}
				for _, earlier := range agents[:i] {
					if earlier.ID == agents[i].ID {
						return usagef("the agent %s is named twice", earlier.Name)
					}
				}
			}
			return run(ctx, api, agents)
		}),
	}
}

// completeMoreAgents completes every argument with the agents that are not named yet.
func (t *tool) completeMoreAgents(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	found, directive := t.completeAgents(cmd, nil, typed)
	return slices.DeleteFunc(found, func(f cobra.Completion) bool {
		name, _, _ := strings.Cut(f, "\t")
		return slices.Contains(args, name)
	}), directive
}

// severalChange is a call that changes each of several agents, and the status that they get.
type severalChange struct {
	call   agentChange
	target client.AgentStatus
}

// changeSeveral carries out a change of several agents, and shows the results. A failure does not stop the others.
func (t *tool) changeSeveral(
	ctx context.Context, api *client.Client, agents []*client.Agent, change *changeFlags, kind severalChange,
) error {
	if change.etag != "" || change.idempotency != "" {
		return usagef("--if-match and --idempotency-key are for one agent")
	}
	changed := []client.Agent{}
	var rehearsed []client.Rehearsal
	var failed []failedObject
	for _, a := range agents {
		after, err := kind.call(ctx, a.ID, change.options()...)
		switch {
		case err != nil:
			failed = append(failed, failedObject{a.Name, err})
		case change.dryRun.on:
			rehearsed = append(rehearsed, change.dryRun.answer)
			change.dryRun.answer = client.Rehearsal{}
		default:
			changed = append(changed, *after)
		}
	}
	if change.dryRun.on {
		return errors.Join(t.showRehearsals(rehearsed), severally(failed, len(agents), "agents"))
	}
	if change.wait {
		for i, a := range changed {
			last, err := t.awaitChange(ctx, api, &a, kind.target)
			if err != nil {
				failed = append(failed, failedObject{a.Name, err})
			}
			if last != nil {
				changed[i] = *last
			}
		}
	}
	if err := t.show(t.agentTable(changed)); err != nil {
		return err
	}
	return severally(failed, len(agents), "agents")
}

// awaitChange waits until a change of an agent has taken effect. The status deleting ends with the agent.
func (t *tool) awaitChange(
	ctx context.Context, api *client.Client, a *client.Agent, target client.AgentStatus,
) (*client.Agent, error) {
	if target == client.AgentStatusDeleting {
		last := a
		err := api.WaitUntilDeleted(ctx, a.ID, func(now *client.Agent) { last = now })
		return last, err
	}
	last, err := t.await(ctx, api, a)
	if err != nil {
		return nil, err
	}
	return last, waitFailure(last, target)
}

// showRehearsals prints what a command would do to several agents.
func (t *tool) showRehearsals(rehearsed []client.Rehearsal) error {
	err := t.show(list(rehearsed, func(r client.Rehearsal) string { return r.Agent.ID }, []column[client.Rehearsal]{
		{"AGENT", func(r client.Rehearsal) string { return r.Agent.Name }},
		{"STATUS", func(r client.Rehearsal) string { return string(r.Would.Status) }},
		{"RESTARTS", func(r client.Rehearsal) string { return yesNo(r.Would.Restarts) }},
		{"DOWNTIME", func(r client.Rehearsal) string { return downtimeText(r.Would) }},
	}))
	t.next("This was a rehearsal: nothing was changed.")
	return err
}
