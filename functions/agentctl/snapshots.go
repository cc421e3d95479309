package agentctl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// snapshotsCommand is the family of commands for the snapshots of agents.
func (t *tool) snapshotsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "snapshots", Aliases: []string{"snapshot"}, Short: "Take, list, restore and delete snapshots of agents",
		Long: "Take, list, restore and delete snapshots. A snapshot has what an agent's volume held at one time. The " +
			"plan decides how many are kept, and for how long daily ones are; one is also taken before each update " +
			"of the image and before each restore. A new agent begins with one: agentctl agents create " +
			"--from-snapshot",
	}
	c.AddCommand(t.listSnapshots(), t.takeSnapshot(), t.getSnapshot(), t.restoreSnapshot(), t.deleteSnapshot(),
		t.exportSnapshot())
	return c
}

// snapshotRun is what a command does with one snapshot of an agent.
type snapshotRun func(ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot) error

// snapshotCommand returns a command for one snapshot of an agent.
func (t *tool) snapshotCommand(name, short, operationID string, run snapshotRun) *cobra.Command {
	return &cobra.Command{
		Use: name + " AGENT SNAPSHOT_ID", Short: short, Args: cobra.ExactArgs(2), Annotations: sends(operationID),
		ValidArgsFunction: t.completeSnapshots,
		RunE: t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error {
			s, err := api.GetSnapshot(ctx, a.ID, rest[0])
			if err != nil {
				return err
			}
			return run(ctx, api, a, s)
		}),
	}
}

// completeSnapshots completes the first argument with agents, and the second with the snapshots of that one.
func (t *tool) completeSnapshots(
	cmd *cobra.Command, args []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return t.completeAgents(cmd, args, toComplete)
	}
	return t.fromAPI(cmd, func(ctx context.Context, api *client.Client) ([]cobra.Completion, error) {
		a, err := t.agent(ctx, api, args[0])
		if err != nil {
			return nil, err
		}
		snapshots, err := api.ListSnapshots(ctx, a.ID)
		var values []cobra.Completion
		for _, s := range snapshots {
			values = append(values, cobra.CompletionWithDesc(s.ID, s.Name+", "+t.age(s.CreatedAt)+" ago"))
		}
		return values, err
	})
}

func (t *tool) listSnapshots() *cobra.Command {
	c := t.agentCommand("list", "List the snapshots of an agent, newest first", "ListSnapshots",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			snapshots, err := api.ListSnapshots(ctx, a.ID)
			if err != nil {
				return err
			}
			if len(snapshots) == 0 && t.output.kind == formatTable {
				t.note("%s has no snapshots. Take one: agentctl snapshots take %s", a.Name, a.ID)
				return nil
			}
			return t.show(list(snapshots, func(s client.AgentSnapshot) string { return s.ID }, t.snapshotColumns()))
		})
	c.Example = "  agentctl snapshots list my-agent\n" +
		"  agentctl snapshots list my-agent -o json | jq -r 'map(select(.status == \"ready\"))[0].id'"
	return c
}

func (t *tool) snapshotColumns() []column[client.AgentSnapshot] {
	type snapshot = client.AgentSnapshot
	return []column[snapshot]{
		{"SNAPSHOT ID", func(s snapshot) string { return s.ID }},
		{"NAME", func(s snapshot) string { return s.Name }},
		{"STATUS", func(s snapshot) string { return string(s.Status) }},
		{"AGE", func(s snapshot) string { return t.age(takenOrCreated(s)) }},
		{"SIZE", func(s snapshot) string {
			if s.SizeBytes == nil {
				return "-"
			}
			return bytesText(float64(*s.SizeBytes))
		}},
		{"CAUSE", func(s snapshot) string { return string(s.Cause) }},
		{"EXPIRES", func(s snapshot) string {
			if s.ExpiresAt == nil {
				return "never"
			}
			return "in " + span(s.ExpiresAt.Sub(t.app.Now()))
		}},
	}
}

// takenOrCreated is the time whose data a snapshot has, or when it was requested.
func takenOrCreated(s client.AgentSnapshot) time.Time {
	if s.TakenAt != nil {
		return *s.TakenAt
	}
	return s.CreatedAt
}

// snapshotView shows one snapshot.
func (t *tool) snapshotView(s *client.AgentSnapshot) result {
	size := ""
	if s.SizeBytes != nil {
		size = bytesText(float64(*s.SizeBytes))
	}
	return object(s, s.ID, []field{
		{"ID", s.ID},
		{"Name", s.Name},
		{"Status", string(s.Status)},
		{"Problem", textOr(s.Problem, "")},
		{"Cause", string(s.Cause)},
		{"Consistency", string(s.Consistency)},
		{"Size", size},
		{"Image", textOr(s.Image, "")},
		{"Requested", t.moment(s.CreatedAt)},
		{"Taken", t.momentOr(s.TakenAt, "")},
		{"Expires", t.momentOr(s.ExpiresAt, "never")},
	})
}

func (t *tool) getSnapshot() *cobra.Command {
	c := t.snapshotCommand("show", "Show a snapshot", "GetSnapshot",
		func(_ context.Context, _ *client.Client, _ *client.Agent, s *client.AgentSnapshot) error {
			return t.show(t.snapshotView(s))
		})
	c.Aliases = []string{"get"}
	c.Example = "  agentctl snapshots show my-agent \"$SNAPSHOT_ID\" -o jsonpath='{.status}'"
	return c
}

func (t *tool) takeSnapshot() *cobra.Command {
	var change changeFlags
	var name, consistency string
	c := t.agentCommand("take", "Take a snapshot of an agent", "TakeSnapshot",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			body := client.TakeSnapshotRequest{}
			if name != "" {
				body.Name = &name
			}
			if way := client.AgentConsistency(consistency); consistency != "" {
				body.Consistency = &way
			}
			s, err := api.TakeSnapshot(ctx, a.ID, body, change.options()...)
			if err != nil {
				return err
			}
			if change.dryRun.on {
				return t.showRehearsal(&change.dryRun.answer)
			}
			if change.wait {
				if s, err = t.awaitSnapshot(ctx, api, s); err != nil {
					return err
				}
			}
			if err := t.show(t.snapshotView(s)); err != nil || s.Status == client.AgentSnapshotStatusReady {
				return err
			}
			if change.wait {
				return failedError{
					fmt.Errorf("the snapshot is %s: %s", s.Status, textOr(s.Problem, "no reason is known")),
				}
			}
			t.next("To see whether it is ready: agentctl snapshots show %s %s", a.ID, s.ID)
			return nil
		})
	c.Long = "Take a snapshot of an agent's volume. The volume must be quiet for that: an image may have a program " +
		"which makes it so. Otherwise the agent is stopped for some seconds; --dry-run says for how long. With " +
		"--consistency crash it goes on, and the snapshot has what a machine would find that lost its power."
	c.Example = "  agentctl snapshots take my-agent --name 'Before the clean-up' --wait\n" +
		"  agentctl snapshots take my-agent --dry-run\n" +
		"  agentctl snapshots take my-agent --consistency crash"
	c.Flags().StringVar(&name, "name", "", "your name for the snapshot")
	c.Flags().StringVar(&consistency, "consistency", "",
		"how the volume is made quiet: `hook`, stop or crash; by default hook if the agent runs and its image has one, "+
			"and otherwise stop")
	completeWith(c, "consistency", "hook", "stop", "crash")
	change.add(c, "wait until the snapshot can be restored", false)
	return c
}

// How often a snapshot is read that is waited for.
const (
	firstSnapshotPoll = 500 * time.Millisecond
	maxSnapshotPoll   = 5 * time.Second
)

// awaitSnapshot waits until a snapshot is neither pending nor being deleted. It returns nil if it does not exist.
func (t *tool) awaitSnapshot(ctx context.Context, api *client.Client, s *client.AgentSnapshot) (*client.AgentSnapshot,
	error,
) {
	if t.app.Terminal.Err {
		t.note("Waiting for the snapshot %s. Ctrl-C stops the wait, not the work.", s.ID)
	}
	for rest := firstSnapshotPoll; s.Status == client.AgentSnapshotStatusPending ||
		s.Status == client.AgentSnapshotStatusDeleting; rest = min(2*rest, maxSnapshotPoll) {
		if err := pause(ctx, rest); err != nil {
			return nil, withNext(err, "The work goes on without this command. Look at it: agentctl snapshots show "+
				s.AgentID+" "+s.ID)
		}
		now, err := api.GetSnapshot(ctx, s.AgentID, s.ID)
		switch {
		case client.IsNotFound(err) && s.Status == client.AgentSnapshotStatusDeleting:
			return nil, nil //nolint:nilnil // there is none
		case client.IsNotFound(err):
			return nil, failedError{errors.New("the snapshot was deleted before it was ready")}
		case err != nil:
			return nil, err
		}
		s = now
	}
	return s, nil
}

func (t *tool) restoreSnapshot() *cobra.Command {
	var change changeFlags
	var yes bool
	c := t.snapshotCommand("restore", "Replace an agent's data by that of a snapshot", "RestoreAgent",
		func(ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot) error {
			if err := t.confirmRestore(yes || change.dryRun.on, a, s); err != nil {
				return err
			}
			a, err := api.RestoreAgent(ctx, a.ID, client.RestoreAgentRequest{SnapshotID: s.ID}, change.options()...)
			if err != nil {
				return err
			}
			return t.finish(ctx, api, a, &change, client.AgentStatusRunning)
		})
	c.Long = "Replace an agent's data by that of a snapshot, and start the agent. What the agent wrote since the " +
		"snapshot is kept as another snapshot for 7 days, which can be restored in the same way. Without a terminal, " +
		"the command needs --yes."
	c.Example = "  agentctl snapshots restore my-agent \"$SNAPSHOT_ID\" --dry-run\n" +
		"  agentctl snapshots restore my-agent \"$SNAPSHOT_ID\" --yes --wait --timeout 5m"
	c.Flags().BoolVar(&yes, "yes", false, "restore without asking")
	change.add(c, "wait until the agent runs", true)
	return c
}

// confirmRestore asks the user whether an agent may lose what it wrote since a snapshot.
func (t *tool) confirmRestore(yes bool, a *client.Agent, s *client.AgentSnapshot) error {
	if yes {
		return nil
	}
	lost := fmt.Sprintf("%s would lose what it wrote since %s. That is kept as a snapshot for 7 days", a.Name,
		t.moment(takenOrCreated(*s)))
	if !t.app.Terminal.In {
		return usagef("%s. There is no terminal to ask on: add --yes to confirm", lost)
	}
	return t.confirm(false, "%s.\nRestore the snapshot %q?", lost, s.Name)
}

func (t *tool) deleteSnapshot() *cobra.Command {
	var change changeFlags
	var yes bool
	c := t.snapshotCommand("delete", "Delete a snapshot", "DeleteSnapshot",
		func(ctx context.Context, api *client.Client, a *client.Agent, s *client.AgentSnapshot) error {
			if err := t.confirm(yes || change.dryRun.on, "Delete the snapshot %q of %s, with its data of %s?", s.Name,
				a.Name, t.moment(takenOrCreated(*s))); err != nil {
				return err
			}
			s, err := api.DeleteSnapshot(ctx, a.ID, s.ID, change.options()...)
			if err != nil {
				return err
			}
			if change.dryRun.on {
				return t.showRehearsal(&change.dryRun.answer)
			}
			if change.wait {
				if _, err := t.awaitSnapshot(ctx, api, s); err != nil {
					return err
				}
				t.note("Deleted the snapshot %s.", s.ID)
				return nil
			}
			return t.show(t.snapshotView(s))
		})
	c.Long = "Delete a snapshot with its data. This cannot be undone. Clones that were made of it keep their data. " +
		"Without a terminal, the command needs --yes."
	c.Example = "  agentctl snapshots delete my-agent \"$SNAPSHOT_ID\" --yes --wait"
	c.Flags().BoolVar(&yes, "yes", false, "delete without asking")
	change.add(c, "wait until nothing of the snapshot is left", false)
	return c
}
