package secrets

import (
	"context"
	"net/http"
	"net/url"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/secret"
)

type operationsInput struct {
	path
	Query page.Query `json:"query"`
}

// ListOperations reads a page of an agent's secret operations, newest first.
func ListOperations(agents agent.Store, operations secret.Operations) function.Route {
	return function.Route{
		Name: "ListSecretOperations", Method: http.MethodGet, Path: "/api/v1/agents/{agent_id}/secret-operations",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		// BadRequest: a cursor of another list.
		Status: http.StatusOK, Summary: "List an agent's secret operations", Errors: []fault.Kind{fault.BadRequest},
		Handle: function.Handle(func(ctx context.Context, in operationsInput) (page.Page[secret.View], error) {
			a, err := agents.Get(ctx, string(in.Path.AgentID))
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

// GetOperation reads one secret operation.
func GetOperation(agents agent.Store, operations secret.Operations) function.Route {
	return function.Route{
		Name: "GetSecretOperation", Method: http.MethodGet,
		Path:   "/api/v1/agents/{agent_id}/secret-operations/{operation_id}",
		Access: function.Admin, Needs: []function.Need{function.Firestore}, Reads: readsAgent,
		Status: http.StatusOK, Summary: "Get a secret operation",
		Handle: function.Handle(func(ctx context.Context, in operationPath) (secret.View, error) {
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
