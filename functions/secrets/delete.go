package secrets

import (
	"context"
	"net/http"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/secretwrite"
)

// key is the name of a secret in a path.
type key string

// JSONSchema implements function.Schemer.
func (key) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "string", Pattern: "^[A-Za-z_][A-Za-z0-9_]{0,127}$",
		Description: "The name of the secret key.",
	}
}

type deleteInput struct {
	Path struct {
		AgentID function.UUID `json:"agent_id" jsonschema:"The agent's id."`
		Key     key           `json:"key" jsonschema:"The name of the secret's environment variable."`
	} `json:"path"`
}

// Delete removes a secret: first from the agent's pod, then all of its versions from the secret store.
func Delete(writer secretwrite.Service, d agent.Addresses) function.Route {
	return function.Route{
		Name: "DeleteSecret", Method: http.MethodDelete, Path: "/api/v1/agents/{agent_id}/secrets/{key}",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish, function.SecretAdd},
		Reads:  readsAgent,
		Status: http.StatusAccepted, Summary: "Delete an agent's secret", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in deleteInput) (Accepted, error) {
			name := string(in.Path.Key)
			a, operations, err := writer.Put(ctx, string(in.Path.AgentID), map[string]*string{name: nil})
			if err == nil && len(operations) == 0 {
				operations, err = deleting(a, name)
			}
			return accepted(a, operations), err
		}),
	}
}

// deleting finds an open operation that deletes the secret, so that a repeated request succeeds. Errors: NotFound for
// an unknown secret.
func deleting(a agent.Agent, name string) ([]secret.Operation, error) {
	for _, o := range a.Operations {
		if o.Key == name && o.Action == secret.Delete && o.Open() {
			return []secret.Operation{o}, nil
		}
	}
	return nil, fault.New(fault.NotFound, "not_found", "The agent has no secret with this key.")
}
