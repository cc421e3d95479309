package agents

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
)

// Get reads one agent.
func Get(agents agent.Store, d agent.Addresses) function.Route {
	return function.Route{
		Name: "GetAgent", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}",
		Access: function.Member, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get an agent",
		Handle: function.Handle(func(ctx context.Context, in path) (agent.View, error) {
			a, err := agents.Get(ctx, in.id())
			return show(ctx, a, d), err
		}),
	}
}
