package agents

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// Delete begins the deletion of an agent in any status. The agent is visible with the status deleting until all of its
// objects are observed gone.
func Delete(agents agent.Store, d agent.Addresses) function.Route {
	return function.Route{
		Name: "DeleteAgent", Method: http.MethodDelete, Path: "/api/v1/agents/{agent_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish},
		Status: http.StatusAccepted, Summary: "Delete an agent",
		Handle: function.Handle(func(ctx context.Context, in change) (agent.View, error) {
			return act(ctx, agents, d, in, agent.Delete)
		}),
	}
}
