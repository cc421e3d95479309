package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/handoff"
)

// Deletion reads what is known of an agent's deletion, and signs it once everything is gone.
func Deletion(deletions agent.Deletions, signer *handoff.Signer) function.Route {
	return function.Route{
		Name: "GetDeletion", Method: http.MethodGet, Path: "/api/v1/deletions/{agent_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.HandoffSign},
		Status: http.StatusOK, Summary: "Get the receipt of an agent's deletion",
		Handle: function.Handle(func(ctx context.Context, in path) (agent.DeletionView, error) {
			r, err := deletions.Get(ctx, in.id())
			if err != nil {
				return agent.DeletionView{}, err
			}
			v := r.Show()
			v.Receipt, err = signer.DeletionReceipt(r, time.Now())
			return v, err
		}),
	}
}
