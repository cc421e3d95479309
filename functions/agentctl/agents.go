package agentctl

import (
	"github.com/spf13/cobra"

	"agents.example/controlplane/shared/client"
)

// operation is the annotation of a command that names the operation of the API that it is for. The description's
// samples follow from it.
const operation = "operation"

// sends returns the annotation of a command for an operation of the API.
func sends(operationID string) map[string]string { return map[string]string{operation: operationID} }

// agentsCommand is the family of commands for agents.
func (t *tool) agentsCommand() *cobra.Command {
	c := &cobra.Command{Use: "agents", Aliases: []string{"agent"}, Short: "Create, watch and change agents"}
	c.AddCommand(t.listAgents())
	return c
}

func (t *tool) listAgents() *cobra.Command {
	var params client.ListAgentsParams
	c := &cobra.Command{
		Use: "list", Short: "List the organization's agents, newest first", Args: cobra.NoArgs,
		Annotations: sends("ListAgents"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			api, err := t.client()
			if err != nil {
				return err
			}
			agents := []client.Agent{}
			for a, err := range api.ListAgents(params).All(cmd.Context()) {
				if err != nil {
					return err
				}
				agents = append(agents, a)
			}
			return t.show(list(agents, func(a client.Agent) string { return a.ID }, []column[client.Agent]{
				{"ID", func(a client.Agent) string { return a.ID }},
				{"NAME", func(a client.Agent) string { return a.Name }},
				{"STATUS", func(a client.Agent) string { return string(a.Status) }},
				{"PLAN", func(a client.Agent) string { return string(a.ResourcePlan) }},
				{"REGION", func(a client.Agent) string { return a.Region }},
			}))
		},
	}
	c.Flags().StringVar(&params.Name, "name", "", "only agents with exactly this name")
	return c
}
