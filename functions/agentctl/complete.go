package agentctl

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// completeWith makes the shell complete a flag with fixed values.
func completeWith(c *cobra.Command, flag string, values ...string) {
	// An error means that the command has no such flag; the flag's own definition is the line above the call.
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completePlan makes the shell complete the flag --plan.
func completePlan(c *cobra.Command) {
	completeWith(c, "plan", "hobby", "starter", "startup", "pro", "business", "enterprise")
}

// collect returns the items of a list, or the error that ended it. The list is never nil, so that its JSON is [].
func collect[T any](items iter.Seq2[T, error]) ([]T, error) {
	all, _, err := first(items, 0)
	return all, err
}

// completionTime is how long the shell waits for values from the API.
const completionTime = time.Second

// fromAPI returns completions from the API, and none if the API does not answer in time.
func (t *tool) fromAPI(
	cmd *cobra.Command, read func(ctx context.Context, api *client.Client) ([]cobra.Completion, error),
) ([]cobra.Completion, cobra.ShellCompDirective) {
	api, err := t.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx := cmd.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completionTime)
	defer cancel()
	values, err := read(ctx, api)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return values, cobra.ShellCompDirectiveNoFileComp
}

// completePlans completes the first argument with the plans.
func (t *tool) completePlans(
	cmd *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.fromAPI(cmd, func(ctx context.Context, api *client.Client) ([]cobra.Completion, error) {
		plans, err := api.ListPlans(ctx)
		values := make([]cobra.Completion, len(plans))
		for i, p := range plans {
			values[i] = cobra.CompletionWithDesc(string(p.ID), p.Name)
		}
		return values, err
	})
}

// completeAgents completes the first argument with the agents' names, and with the ids of agents without a unique one.
func (t *tool) completeAgents(
	cmd *cobra.Command, args []string, _ string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return t.fromAPI(cmd, func(ctx context.Context, api *client.Client) ([]cobra.Completion, error) {
		page, err := api.ListAgents(client.ListAgentsParams{Limit: 100}).Page(ctx)
		if err != nil {
			return nil, err
		}
		count := map[string]int{}
		for _, a := range page.Items {
			count[a.Name]++
		}
		var values []cobra.Completion
		for _, a := range page.Items {
			if count[a.Name] == 1 {
				values = append(values, cobra.CompletionWithDesc(a.Name, string(a.Status)))
			} else {
				values = append(values, cobra.CompletionWithDesc(a.ID, a.Name+", "+string(a.Status)))
			}
		}
		return values, nil
	})
}
