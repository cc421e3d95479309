package agentctl

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/client"
)

// agent returns the agent with an id, or with a name that only one agent has.
func (t *tool) agent(ctx context.Context, api *client.Client, nameOrID string) (*client.Agent, error) {
	if uuid.Validate(nameOrID) == nil {
		return api.GetAgent(ctx, nameOrID, client.GetAgentParams{})
	}
	if nameOrID == "" {
		return nil, usagef("the agent's id or name is empty")
	}
	found, err := collect(api.ListAgents(client.ListAgentsParams{Name: nameOrID}).All(ctx))
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, withNext(notFoundError{fmt.Errorf("no agent has the name or id %q", nameOrID)},
			"Run: agentctl agents list")
	case len(found) > 1:
		ids := make([]string, len(found))
		for i, a := range found {
			ids[i] = a.ID
		}
		return nil, usagef("%d agents have the name %q: use one of the ids %s", len(found), nameOrID,
			strings.Join(ids, ", "))
	}
	return &found[0], nil
}
