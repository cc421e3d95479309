package credentials

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secretwrite"
)

// Rotate replaces an agent's credentials. The rotation is pending until the agent accepts the new credentials and
// refuses the old ones.
func Rotate(writer secretwrite.Service, addresses agent.Addresses) function.Route {
	return function.Route{
		Name: "RotateCredentials", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/credentials/rotate",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish, function.SecretAdd},
		Reads:  func(path func(string) string) document.Ref { return agent.Document(path("agent_id")) },
		Status: http.StatusOK, Summary: "Rotate an agent's credentials", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(addresses)),
		Handle: function.Handle(func(ctx context.Context, in path) (agent.View, error) {
			a, err := writer.Rotate(ctx, string(in.Path.AgentID))
			return a.Show(identity.From(ctx), addresses), err
		}),
	}
}
