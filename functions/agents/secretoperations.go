package agents

import (
	"context"
	"net/http"
	"net/url"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// secretOperationPath names an operation of an agent.
type secretOperationPath struct {
	Path struct {
		AgentID     function.UUID `json:"agent_id" jsonschema:"The agent's id."`
		OperationID function.UUID `json:"operation_id" jsonschema:"The id of the secret operation."`
	} `json:"path"`
}

type secretOperationsInput struct {
	path
	Query page.Query `json:"query"`
}

// ListSecretOperations reads a page of an agent's secret operations, newest first.
func ListSecretOperations(agents agent.Store, operations secret.Operations) function.Route {
	return function.Route{
		Name: "ListSecretOperations", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/secret-operations",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List an agent's secret operations", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in secretOperationsInput) (page.Page[secret.View], error) {
			a, err := agents.Get(ctx, in.id())
			if err != nil {
				return page.Page[secret.View]{}, err
			}
			found, err := operations.List(ctx, a.ID, in.Query.Request())
			found.Self = &url.URL{
				Path:     "/api/v1/agents/" + a.ID + "/secret-operations",
				RawQuery: in.Query.Values().Encode(),
			}
			return page.Map(found, secret.Operation.Show), err
		}),
	}
}

// GetSecretOperation reads one secret operation.
func GetSecretOperation(agents agent.Store, operations secret.Operations) function.Route {
	return function.Route{
		Name: "GetSecretOperation", Method: http.MethodGet,
		Path:   "/api/v1/agents/{agent_id}/secret-operations/{operation_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get a secret operation",
		Handle: function.Handle(func(ctx context.Context, in secretOperationPath) (secret.View, error) {
			a, err := agents.Get(ctx, string(in.Path.AgentID))
			if err != nil {
				return secret.View{}, err
			}
			if o := a.Operation(string(in.Path.OperationID)); o != nil {
				return o.Show(), nil
			}
			o, err := operations.Get(ctx, a.ID, string(in.Path.OperationID))
			return o.Show(), err
		}),
	}
}

// ReconcileSecretOperation retries the recorded stage of a pending or failed operation. It never adds a version.
func ReconcileSecretOperation(
	writer secretwrite.Service, operations secret.Operations, d agent.Display,
) function.Route {
	return function.Route{
		Name: "ReconcileSecretOperation", Method: http.MethodPost,
		Path:   "/api/v1/agents/{agent_id}/secret-operations/{operation_id}/reconcile",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks, function.SecretAdd},
		Reads:  readsAgent,
		Status: http.StatusOK, Summary: "Retry the persisted stage of a secret operation",
		// The interface demands 402 here, although no operation of a secret costs money.
		Errors:    []fault.Kind{fault.BadRequest, fault.PaymentRequired, fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in secretOperationPath) (secret.View, error) {
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
			a, err := writer.Agents.Get(ctx, agentID)
			if err != nil {
				return secret.View{}, err
			}
			return secret.View{}, a.OperationTerminal()
		}),
	}
}
