package agents

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
)

type migrateInput struct {
	change
	// Body may be absent, which enables the sandbox.
	Body struct {
		Enabled *bool `json:"enabled,omitempty" jsonschema:"Absent or null is true."`
	} `json:"body,omitempty"`
}

// Example implements function.Exampler.
func (migrateInput) Example() any {
	var in migrateInput
	enabled := true
	in.Body.Enabled = &enabled
	return in
}

// MigrateSandbox turns the sandboxed runtime class of an agent on or off; its volume stays.
func MigrateSandbox(agents agent.Store, d agent.Addresses) function.Route {
	return function.Route{
		Name: "MigrateAgentSandbox", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/migrate-sandbox",
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Publish},
		Status: http.StatusOK, Summary: "Turn an agent's sandbox on or off", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, in migrateInput) (agent.View, error) {
			now, enabled := time.Now().UTC(), in.Body.Enabled == nil || *in.Body.Enabled
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.Migrate(enabled, now) }))
			return show(ctx, a, d), err
		}),
	}
}
