package agentctl

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// secretsCommand is the family of commands for an agent's secrets.
func (t *tool) secretsCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "secrets", Aliases: []string{"secret"}, Short: "List, set, import and remove the secrets of an agent",
		Long: "Secrets are environment variables of an agent whose values cannot be read back. A changed secret " +
			"reaches the agent with a restart, which the API makes; an agent that is paused or stopped gets it at " +
			"its next start.",
	}
	c.AddCommand(t.listSecrets(), t.setSecret(), t.unsetSecrets(), t.importSecrets(), t.listOperations(),
		t.reconcileOperation())
	return c
}

func (t *tool) listSecrets() *cobra.Command {
	c := t.agentCommand("list", "List an agent's secrets without their values", "ListSecrets",
		func(ctx context.Context, api *client.Client, a *client.Agent) error {
			secrets, err := api.ListSecrets(ctx, a.ID)
			if err != nil {
				return err
			}
			if len(secrets) == 0 && t.output.kind == formatTable {
				t.note("%s has no secrets. Set one: agentctl secrets set %s KEY", a.Name, a.ID)
				return nil
			}
			columns := []column[client.Secret]{
				{"KEY", func(s client.Secret) string { return s.Key }},
				{"IN SYNC", func(s client.Secret) string { return yesNo(s.InSync) }},
				{"LATEST", func(s client.Secret) string { return version64(s.LatestVersion) }},
				{"LIVE", func(s client.Secret) string { return version64(s.LiveVersion) }},
				{"UPDATED", func(s client.Secret) string { return t.since(&s.UpdatedAt, "") }},
			}
			if slices.ContainsFunc(secrets, func(s client.Secret) bool { return s.Inject != nil }) {
				columns = append(columns, column[client.Secret]{
					"INJECTED INTO", func(s client.Secret) string { return injectText(s.Inject) },
				})
			}
			return t.show(list(secrets, func(s client.Secret) string { return s.Key }, columns))
		})
	c.Long = "List the keys of an agent's secrets, and whether the running agent has the newest values."
	c.Example = "  agentctl secrets list my-agent\n" +
		"  agentctl secrets list my-agent -o json | jq -r '.[] | select(.in_sync | not) | .key'"
	return c
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// version64 shows the number of a version.
func version64(n *int64) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

// clientAndAgent returns the client and the agent that an argument names.
func (t *tool) clientAndAgent(ctx context.Context, nameOrID string) (*client.Client, *client.Agent, error) {
	api, err := t.client()
	if err != nil {
		return nil, nil, err
	}
	a, err := t.agent(ctx, api, nameOrID)
	return api, a, err
}

func (t *tool) setSecret() *cobra.Command {
	var source valueSource
	var inject injectFlags
	var wait bool
	var dryRun rehearsalFlag
	c := &cobra.Command{
		Use: "set AGENT KEY", Short: "Set a secret of an agent", Args: keyArgs(2, 2),
		Long: "Set a secret. The value comes from standard input if something is piped to the command, from a file, " +
			"from an environment variable, or from a hidden prompt. It cannot be an argument, because other users of " +
			"the machine and the shell's history can see arguments. The line break at the end of a value of one line " +
			"is removed; a value of several lines stays as it is. With --inject-host, the agent does not get the " +
			"value: it is added to the agent's requests to these hosts, and the variable has the text injected. The " +
			"agent's egress must allow the hosts. A new value of such a secret keeps its hosts unless a flag names " +
			"others.",
		Example: "  pass show openai | agentctl secrets set my-agent OPENAI_API_KEY --wait\n" +
			"  agentctl secrets set my-agent TLS_KEY --from-file key.pem\n" +
			"  agentctl secrets set my-agent OPENAI_API_KEY --from-env KEY --inject-host api.openai.com\n" +
			"  agentctl secrets set my-agent ANTHROPIC_API_KEY --from-env KEY --inject-host api.anthropic.com " +
			"--inject-header x-api-key --inject-format '{value}'\n" +
			"  agentctl secrets set my-agent OPENAI_API_KEY",
		Annotations: sends("PutSecrets"), ValidArgsFunction: t.completeSecrets,
		RunE: t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error {
			value, err := source.read(ctx, t, rest[0])
			if err != nil {
				return err
			}
			if why := checkValue(value); why != "" {
				return invalidf("%s: %s", rest[0], why)
			}
			entries := []envEntry{{key: rest[0], value: value}}
			if entries[0].inject, err = inject.spec(); err != nil {
				return err
			}
			if err := t.keepInjected(ctx, api, a, entries); err != nil {
				return err
			}
			changes, err := api.PutSecrets(ctx, a.ID, putRequest(entries), dryRun.options()...)
			if err != nil {
				return err
			}
			if dryRun.on {
				return t.showRehearsal(&dryRun.answer)
			}
			return t.followChanges(ctx, api, changes, wait)
		}),
	}
	c.Flags().StringVar(&source.file, "from-file", "", "read the value from this `FILE`")
	c.Flags().StringVar(&source.variable, "from-env", "", "take the value of the environment variable `NAME`")
	inject.add(c)
	waitFlag(c, &wait)
	dryRun.add(c)
	return c
}

// waitFlag defines --wait for commands that begin secret operations.
func waitFlag(c *cobra.Command, wait *bool) {
	c.Flags().BoolVar(wait, "wait", false, "wait until the running agent has the change")
}

func (t *tool) unsetSecrets() *cobra.Command {
	var wait bool
	var dryRun rehearsalFlag
	c := &cobra.Command{
		Use: "unset AGENT KEY...", Short: "Remove secrets of an agent", Args: keyArgs(2, math.MaxInt),
		Long: "Remove secrets from an agent and destroy their values. Keys that the agent does not have are " +
			"no error.",
		Example:     "  agentctl secrets unset my-agent OLD_TOKEN OTHER_TOKEN --wait",
		Annotations: sends("PutSecrets"), ValidArgsFunction: t.completeSecrets,
		RunE: t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error {
			removed := make([]envEntry, len(rest))
			for i, key := range rest {
				removed[i].key = key
			}
			if dryRun.on {
				return t.rehearseAll(ctx, api, a.ID, removed)
			}
			changes, err := t.putAll(ctx, api, a.ID, removed)
			if err != nil {
				return err
			}
			return t.followChanges(ctx, api, changes, wait)
		}),
	}
	waitFlag(c, &wait)
	dryRun.add(c)
	return c
}

func (t *tool) listOperations() *cobra.Command {
	limit := 20
	c := &cobra.Command{
		Use: "operations AGENT", Short: "List changes of an agent's secrets, newest first", Args: cobra.ExactArgs(1),
		Long: "List the operations that set, remove and rotate an agent's secrets: the stage that each has reached, " +
			"and why one failed or waits.",
		Example:     "  agentctl secrets operations my-agent -o json | jq '.[] | select(.status == \"failed\")'",
		Annotations: sends("ListSecretOperations"), ValidArgsFunction: t.completeAgents,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit must be 0 or more")
			}
			api, a, err := t.clientAndAgent(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			params := client.ListSecretOperationsParams{Limit: pageSize(limit)}
			operations, _, err := first(api.ListSecretOperations(a.ID, params).All(cmd.Context()), limit)
			if err != nil {
				return err
			}
			if len(operations) == 0 && t.output.kind == formatTable {
				t.note("No secret of %s has changed yet. Set one: agentctl secrets set %s KEY", a.Name, a.ID)
				return nil
			}
			return t.show(t.operationTable(operations, operations))
		},
	}
	c.Flags().IntVar(&limit, "limit", limit, "show at most this many operations; 0 for all")
	return c
}

func (t *tool) reconcileOperation() *cobra.Command {
	var wait bool
	c := &cobra.Command{
		Use: "reconcile AGENT OPERATION_ID", Short: "Retry a failed change of a secret", Args: cobra.ExactArgs(2),
		Long: "Retry the stage at which an operation failed or waits. The value is not needed again, except when it " +
			"was not stored; the command then says so.",
		Example:     "  agentctl secrets reconcile my-agent 6f1c2f0e-33b5-4c5a-9d0a-7a1f4e2b9c11 --wait",
		Annotations: sends("ReconcileSecretOperation"), ValidArgsFunction: t.completeAgents,
		RunE: t.forAgentAnd(func(ctx context.Context, api *client.Client, a *client.Agent, rest []string) error {
			o, err := api.ReconcileSecretOperation(ctx, a.ID, rest[0])
			if err != nil {
				return err
			}
			operations, err := t.follow(ctx, api, a.ID, []client.SecretOperation{*o}, wait)
			if err != nil {
				return err
			}
			if err := t.show(t.operationTable(operations[0], operations)); err != nil {
				return err
			}
			return t.outcome(a.ID, operations, wait)
		}),
	}
	waitFlag(c, &wait)
	return c
}
