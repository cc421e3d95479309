package agentctl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// agentChange is a call of the API that changes one agent.
type agentChange func(ctx context.Context, id string, options ...client.CallOption) (*client.Agent, error)

// agentActions are the commands that move an agent to another status.
func (t *tool) agentActions() []*cobra.Command {
	return []*cobra.Command{
		t.agentAction("restart", "Restart an agent", client.AgentStatusRunning,
			func(api *client.Client) agentChange { return api.RestartAgent }),
		t.agentAction("pause", "Pause an agent; its CPU and memory stay reserved", client.AgentStatusPaused,
			func(api *client.Client) agentChange { return api.PauseAgent }),
		t.sleepAgent(),
		t.agentAction("resume", "Resume a paused agent, or wake one that sleeps", client.AgentStatusRunning,
			func(api *client.Client) agentChange { return api.ResumeAgent }),
		t.agentAction("stop", "Stop an agent, and free its CPU and memory", client.AgentStatusStopped,
			func(api *client.Client) agentChange { return api.StopAgent }),
		t.agentAction("start", "Start an agent that is stopped or in error", client.AgentStatusRunning,
			func(api *client.Client) agentChange { return api.StartAgent }),
	}
}

// agentAction returns a command that makes a call, after which the agent gets the status target.
func (t *tool) agentAction(
	name, short string, target client.AgentStatus, call func(*client.Client) agentChange,
) *cobra.Command {
	var change changeFlags
	c := t.severalAgents(name, short, strings.ToUpper(name[:1])+name[1:]+"Agent",
		func(ctx context.Context, api *client.Client, agents []*client.Agent) error {
			if len(agents) > 1 {
				return t.changeSeveral(ctx, api, agents, &change, severalChange{call(api), target})
			}
			a, err := call(api)(ctx, agents[0].ID, change.options()...)
			if err != nil {
				return err
			}
			return t.finish(ctx, api, a, &change, target)
		})
	c.Example = "  agentctl agents " + name + " my-agent --wait --timeout 5m\n" +
		"  agentctl agents " + name + " my-agent other-agent"
	if target == client.AgentStatusStopped {
		c.Long = short + ". With --wait, the command ends when the status is stopped; the agent's pod ends within 30 " +
			"seconds after that, or as many as its image may take."
	}
	change.add(c, fmt.Sprintf("wait until the agent's status is %s", target), true)
	return c
}

func (t *tool) migrateSandbox() *cobra.Command {
	var change changeFlags
	var enabled bool
	c := t.agentCommand("migrate-sandbox", "Turn an agent's sandbox on or off", "MigrateAgentSandbox",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			a, err := api.MigrateAgentSandbox(ctx, a.ID, client.MigrateAgentSandboxRequest{Enabled: &enabled},
				change.options()...)
			if err != nil {
				return err
			}
			return t.finish(ctx, api, a, &change, "")
		})
	c.Example = "  agentctl agents migrate-sandbox my-agent --wait\n" +
		"  agentctl agents migrate-sandbox my-agent --enabled=false --wait"
	c.Flags().BoolVar(&enabled, "enabled", true, "whether the sandbox is on")
	change.add(c, "wait until the agent runs with the change", true)
	return c
}

func (t *tool) deleteAgent() *cobra.Command {
	var change changeFlags
	var yes bool
	c := t.severalAgents("delete", "Delete agents with their volumes and secrets", "DeleteAgent",
		func(ctx context.Context, api *client.Client, agents []*client.Agent) error {
			if err := t.confirmNames(yes || change.dryRun.on, agents); err != nil {
				return err
			}
			if len(agents) > 1 {
				return t.changeSeveral(ctx, api, agents, &change,
					severalChange{api.DeleteAgent, client.AgentStatusDeleting})
			}
			a := agents[0]
			deleted, err := api.DeleteAgent(ctx, a.ID, change.options()...)
			if err != nil {
				return err
			}
			if change.dryRun.on {
				return t.showRehearsal(&change.dryRun.answer)
			}
			if !change.wait {
				if err := t.show(t.agentView(deleted)); err != nil {
					return err
				}
				t.next("To wait until nothing of it is left: agentctl agents wait %s --for deleted", a.ID)
				return nil
			}
			return t.awaitDeletion(ctx, api, deleted)
		})
	c.Long = "Delete agents with their volumes and secrets. This cannot be undone. Without a terminal, it needs " +
		"--yes. Several agents are confirmed together. One that cannot be deleted does not stop the others."
	c.Example = "  agentctl agents delete my-agent --yes --wait --timeout 5m\n" +
		"  agentctl agents delete my-agent other-agent"
	c.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	change.add(c, "wait until nothing of the agent is left", true)
	return c
}

// confirmNames asks the user to type the agent's name, or how many agents there are.
func (t *tool) confirmNames(yes bool, agents []*client.Agent) error {
	if yes {
		return nil
	}
	what, wanted, prompt := "the agent "+agents[0].Name+" with its volume", agents[0].Name, "Type its name"
	if len(agents) > 1 {
		what = fmt.Sprintf("%d agents with their volumes", len(agents))
		wanted = fmt.Sprintf("delete %d", len(agents))
		prompt = fmt.Sprintf("Type %q", wanted)
	}
	if !t.app.Terminal.In {
		return usagef("deleting %s cannot be undone, and there is no terminal to ask on: add --yes to confirm", what)
	}
	if len(agents) > 1 {
		for _, a := range agents {
			t.note("  %s (%s, %s)", a.Name, a.ID, statusWord(a))
		}
	}
	fmt.Fprintf(t.app.Stderr, "This deletes %s and secrets, and cannot be undone.\n%s to confirm: ",
		harmless(what), prompt)
	answer, err := t.answer()
	if err != nil {
		return err
	}
	if answer != wanted {
		return errors.New("nothing was deleted, because the answer is not what was asked for")
	}
	return nil
}

// next prints what the user can do next, unless the output is for programs.
func (t *tool) next(text string, args ...any) {
	if t.output.kind == formatTable {
		t.note(text, args...)
	}
}
