package agentctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

func (t *tool) agentReceipt() *cobra.Command {
	return &cobra.Command{
		Use: "receipt AGENT", Short: "Print the signed receipt of an agent's deletion", Args: cobra.ExactArgs(1),
		Long: "Print when the deletion of each resource of an agent was requested, when the resource was observed " +
			"gone, and the receipt that the service signs once everything is gone. It is available for 30 days after " +
			"the deletion. AGENT is the agent's id: the name of a deleted agent is not known anymore. The exit code " +
			"is 6 while the agent is being deleted.",
		Example: "  agentctl agents delete my-agent --yes --wait -o name > agent-id\n" +
			"  agentctl agents receipt \"$(cat agent-id)\" -o json > receipt.json\n" +
			"  agentctl verify receipt.json",
		Annotations: sends("GetDeletion"), ValidArgsFunction: t.completeAgents,
		RunE: t.calling(func(ctx context.Context, api *client.Client, args []string) error {
			id, err := t.deletedAgent(ctx, api, args[0])
			if err != nil {
				return err
			}
			d, err := api.GetDeletion(ctx, id)
			if e := client.AsError(err); e != nil && e.Code == "deletion_not_found" {
				return withNext(err, "The agent is not being deleted, or was deleted more than 30 days ago.")
			}
			if err == nil {
				err = missingReceipt(d)
			}
			if err != nil {
				return err
			}
			return t.show(result{value: d, names: []string{d.AgentID}, table: func(w io.Writer) error {
				if err := t.printDeletion(asScreen(w), withRequester(ctx, api, d)); err != nil {
					return err
				}
				_, err := fmt.Fprintln(w, "\n"+harmless(*d.Receipt))
				return err
			}})
		}),
	}
}

// withRequester returns a deletion that names the key or the user that requested it, as far as the organization still
// has it and the caller may know.
func withRequester(ctx context.Context, api *client.Client, d *client.Deletion) *client.Deletion {
	if d.RequestedBy == nil {
		return d
	}
	named := *d
	for k, err := range api.ListAPIKeys(client.ListAPIKeysParams{Limit: largestPage}).All(ctx) {
		if err != nil {
			break
		}
		if k.ID == *d.RequestedBy {
			named.RequestedBy = new("the key " + k.Name)
			return &named
		}
	}
	members, err := api.ListMembers(ctx)
	for _, m := range members {
		if err == nil && m.UserID == *d.RequestedBy && m.Email != nil {
			named.RequestedBy = m.Email
		}
	}
	return &named
}

// deletedAgent returns the id of an agent that may be deleted already. Only agents that still exist have a name.
func (t *tool) deletedAgent(ctx context.Context, api *client.Client, nameOrID string) (string, error) {
	if uuid.Validate(nameOrID) == nil {
		return nameOrID, nil
	}
	a, err := t.agent(ctx, api, nameOrID)
	var missing notFoundError
	if errors.As(err, &missing) {
		return "", withNext(missing, "After its deletion, an agent is known by its id only. Find it: agentctl events "+
			"list --type agent.deleted")
	}
	if err != nil {
		return "", err
	}
	return a.ID, nil
}

// missingReceipt returns why a deletion has no receipt; nil if it has one.
func missingReceipt(d *client.Deletion) error {
	var left []string
	for _, r := range d.Resources {
		if r.ObservedGoneAt == nil {
			left = append(left, string(r.Name))
		}
	}
	switch {
	case d.Receipt != nil:
		return nil
	case d.Status == client.DeletionStatusDeleting:
		return withNext(stateError{fmt.Errorf("%s is still being deleted. Not observed gone yet: %s", d.Name,
			strings.Join(left, ", "))}, "Wait for it: agentctl agents wait "+d.AgentID+" --for deleted")
	case len(left) > 0:
		return fmt.Errorf("%s is deleted, but without a receipt: the service did not record when these were gone: %s",
			d.Name, strings.Join(left, ", "))
	}
	return withNext(fmt.Errorf("%s is deleted, but without a receipt: the service has no signing key", d.Name),
		"See what was observed: agentctl api GET /api/v1/deletions/"+d.AgentID)
}

// printDeletion prints a deletion for people.
func (t *tool) printDeletion(s screen, d *client.Deletion, more ...field) error {
	requested := t.momentOr(d.RequestedAt, "")
	if d.RequestedBy != nil && requested != "" {
		requested += " by " + *d.RequestedBy
	}
	printFields(s, slices.Concat([]field{
		{"ID", d.AgentID}, {"Name", d.Name}, {"Requested", requested}, {"Completed", t.momentOr(d.CompletedAt, "")},
	}, more))
	fmt.Fprintln(s)
	return printTable(s, d.Resources, []column[client.DeletedResource]{
		{"RESOURCE", func(r client.DeletedResource) string { return string(r.Name) }},
		{"REQUESTED", func(r client.DeletedResource) string { return t.momentOr(r.RequestedAt, "-") }},
		{"OBSERVED GONE", func(r client.DeletedResource) string { return t.momentOr(r.ObservedGoneAt, "-") }},
	})
}

// momentOr shows a time, or a word if there is none.
func (t *tool) momentOr(at *time.Time, missing string) string {
	if at == nil {
		return missing
	}
	return t.moment(*at)
}
