package secrets

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// Reconcile retries the recorded stage of a pending or failed operation. It never adds a version.
func Reconcile(writer secretwrite.Service, operations secret.Operations, d agent.Addresses) function.Route {
	return function.Route{
		Name: "ReconcileSecretOperation", Method: http.MethodPost,
		Path:   "/api/v1/agents/{agent_id}/secret-operations/{operation_id}/reconcile",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish, function.SecretAdd},
		Reads:  readsAgent,
		Status: http.StatusOK, Summary: "Retry the persisted stage of a secret operation",
		// The interface demands 402 here, although no operation of a secret costs money.
		Errors:    []fault.Kind{fault.BadRequest, fault.PaymentRequired, fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in operationPath) (secret.View, error) {
			agentID, id := string(in.Path.AgentID), string(in.Path.OperationID)
			o, err := writer.Reconcile(ctx, agentID, id)
			switch {
			case err != nil:
				return secret.View{}, err
			case o != nil:
				return o.Show(), nil
			}
			if _, err := operations.Get(ctx, agentID, id); err != nil {
				return secret.View{}, err
			}
			return secret.View{}, agent.ErrOperationTerminal()
		}),
	}
}
