package agents

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

type migrateInput struct {
	change
	// Body may be absent, which enables the sandbox.
	Body struct {
		Enabled sandboxSwitch `json:"enabled,omitempty" jsonschema:"Turns the sandbox on (true, the default) or off (false)."`
	} `json:"body,omitempty"`
}

// sandboxSwitch is a boolean that is true when a request leaves it out. A pointer would accept null, too.
type sandboxSwitch struct{ off bool }

// JSONSchema implements function.Schemer.
func (sandboxSwitch) JSONSchema() *jsonschema.Schema { return &jsonschema.Schema{Type: "boolean"} }

// UnmarshalJSON implements json.Unmarshaler.
func (s *sandboxSwitch) UnmarshalJSON(b []byte) error {
	var on bool
	err := json.Unmarshal(b, &on)
	s.off = !on
	return err
}

// MarshalJSON implements json.Marshaler, for the example.
func (s sandboxSwitch) MarshalJSON() ([]byte, error) { return json.Marshal(!s.off) }

// Example implements function.Exampler.
func (migrateInput) Example() any { return migrateInput{} }

// MigrateSandbox turns the sandboxed runtime class of an agent on or off; its volume stays.
func MigrateSandbox(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "MigrateAgentSandbox", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/migrate-sandbox",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Turn an agent's sandbox on or off", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in migrateInput) (agent.View, error) {
			now, enabled := time.Now().UTC(), !in.Body.Enabled.off
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.Migrate(enabled, now) }))
			return show(ctx, a, d), err
		}),
	}
}
