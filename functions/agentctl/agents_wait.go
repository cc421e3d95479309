package agentctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// What the command wait can wait for, in addition to a status.
const (
	forSettled = "settled"
	forDeleted = "deleted"
)

func (t *tool) waitAgent() *cobra.Command {
	var target string
	c := t.agentCommand("wait", "Wait until an agent has a status", "GetAgent",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			switch target {
			case forDeleted:
				if a.Status != client.AgentStatusDeleting {
					return withNext(failedError{fmt.Errorf("%s is %s, and is not being deleted", a.Name, a.Status)},
						"Delete it: agentctl agents delete "+a.ID+" --wait")
				}
				return t.awaitDeletion(ctx, api, a)
			case forSettled:
				return t.finish(ctx, api, a, &changeFlags{wait: true}, "")
			case "running", "paused", "stopped":
				return t.finish(ctx, api, a, &changeFlags{wait: true}, client.AgentStatus(target))
			}
			return usagef("--for must be settled, running, paused, stopped or deleted, not %q", target)
		})
	wait := c.RunE
	c.RunE = func(cmd *cobra.Command, args []string) error {
		err := wait(cmd, args)
		e := client.AsError(err) // of an id; a name may be mistyped
		if target == forDeleted && e != nil && e.Code == "agent_not_found" {
			t.note("There is no agent with the id %s.", args[0])
			return nil
		}
		return err
	}
	c.Long = "Wait until an agent is running, paused, stopped or in error, and no new pod is starting. The exit code " +
		"is 9 if the agent ends in error or in another status than --for names. With --for deleted, an id that no " +
		"agent has is a success, because the agent may be gone already."
	c.Example = "  agentctl agents wait my-agent --timeout 5m && curl \"$(agentctl agents get my-agent " +
		"-o jsonpath='{.api_url}')\""
	c.Flags().StringVar(&target, "for", forSettled, "`status` to wait for: settled, running, paused, stopped or deleted")
	completeWith(c, "for", forSettled, "running", "paused", "stopped", forDeleted)
	return c
}

// finish shows an agent that a command has changed, after waiting for it if the user wants that. An empty target is any
// status but error.
func (t *tool) finish(
	ctx context.Context, api *client.Client, a *client.Agent, change *changeFlags, target client.AgentStatus,
) error {
	if change.dryRun.on {
		return t.showRehearsal(&change.dryRun.answer)
	}
	if !change.wait {
		err := t.show(t.agentView(a))
		if !a.Status.IsSettled() || a.DashboardWarming {
			t.next("To follow it: agentctl agents wait %s", a.ID)
		}
		return err
	}
	last, err := t.await(ctx, api, a)
	if err != nil {
		return withNext(err, "The agent goes on without this command. Look at it: agentctl agents get "+a.ID,
			"Wait again: agentctl agents wait "+a.ID)
	}
	failure := waitFailure(last, target)
	if failure == nil || t.output.kind != formatTable {
		if err := t.show(t.agentView(last)); err != nil {
			return err
		}
	}
	if failure == nil && target == "" && isAsleep(last) {
		t.next("To wake it: agentctl agents resume %s", a.ID)
	}
	return failure
}

// await waits until an agent's status is settled and no new pod starts. It shows the progress.
func (t *tool) await(ctx context.Context, api *client.Client, a *client.Agent) (*client.Agent, error) {
	p := t.showProgress(a)
	defer p.end()
	return api.WaitUntilReady(ctx, a.ID, p.update)
}

// pause waits until d has passed or ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// awaitDeletion waits until nothing of an agent is left. Programs get its last record.
func (t *tool) awaitDeletion(ctx context.Context, api *client.Client, a *client.Agent) error {
	p, last := t.showProgress(a), a
	err := api.WaitUntilDeleted(ctx, a.ID, func(now *client.Agent) {
		last = now
		p.update(now)
	})
	p.end()
	if err != nil {
		return withNext(err, "The agent goes on without this command. Look at it: agentctl agents get "+a.ID)
	}
	if t.output.kind != formatTable {
		return t.show(t.agentView(last))
	}
	t.note("%s is deleted. Nothing of it is left.\nThe signed receipt: agentctl agents receipt %s", a.Name, a.ID)
	return nil
}

// waitFailure returns the error of a wait that did not end as wanted.
func waitFailure(a *client.Agent, target client.AgentStatus) error {
	problem := a.Config.Error
	switch {
	case a.Status == client.AgentStatusError, target == "" && problem != nil && a.Status == client.AgentStatusRunning:
	case target == "" || a.Status == target:
		return nil
	default:
		return withNext(failedError{fmt.Errorf("%s is %s, not %s", a.Name, statusWord(a), target)},
			afterWait(a)...)
	}
	text := fmt.Sprintf("%s is in error", a.Name)
	if a.Status == client.AgentStatusRunning {
		text = fmt.Sprintf("%s runs, but the change failed", a.Name)
	}
	next := []string{"See why: agentctl agents diagnose " + a.ID, "Read its log: agentctl agents logs " + a.ID}
	if problem != nil {
		if problem.Stage != "" {
			text += " at the stage " + problem.Stage
		}
		text += fmt.Sprintf(": %s (%s)", problem.Message, problem.Code)
	}
	if slices.Contains(a.Config.AllowedActions, client.AgentActionRestart) {
		next = append(next, "Once the cause is gone: agentctl agents restart "+a.ID+" --wait")
	}
	return withNext(failedError{errors.New(text)}, next...)
}

// afterWait is what the user can do about an agent whose status is not the one that was waited for.
func afterWait(a *client.Agent) []string {
	if isAsleep(a) {
		return []string{"Wake it: agentctl agents resume " + a.ID + " --wait"}
	}
	return []string{"See why: agentctl agents diagnose " + a.ID}
}
