package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

// Delete begins the deletion of an agent in any status. The agent is visible with the status deleting until all of its
// objects are observed gone.
func Delete(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "DeleteAgent", Method: http.MethodDelete, Path: "/api/v1/agents/{agent_id}",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusAccepted, Summary: "Delete an agent",
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in change) (agent.DeletionAccepted, error) {
			now := time.Now().UTC()
			a, err := agents.Change(ctx, in.id(), in.unlessChanged(func(a *agent.Agent) error {
				return a.RequestDeletion(call.From(ctx).Caller.ID, now)
			}))
			return agent.DeletionAccepted{View: show(ctx, a, d)}, err
		}),
	}
}
