package secrets

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/secret"
)

// List shows an agent's secrets, each with its newest version and the version in the running pod. It shows no values.
func List(agents agent.Store) function.Route {
	return function.Route{
		Name: "ListSecrets", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/secrets",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "List an agent's secrets",
		Handle: function.Handle(func(ctx context.Context, in path) ([]secret.Summary, error) {
			a, err := agents.Get(ctx, string(in.Path.AgentID))
			return a.Secrets(), err
		}),
	}
}
