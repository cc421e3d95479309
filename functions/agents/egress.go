package agents

import (
	"context"
	"net/http"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/rehearsal"
)

// maxAllowed is how many hosts one request allows.
const maxAllowed = 20

// allowedHosts are the hosts that a request allows.
type allowedHosts []string

// JSONSchema implements function.Schemer.
func (allowedHosts) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type: "array", MinItems: new(1), MaxItems: new(maxAllowed), Items: &jsonschema.Schema{Type: "string"},
		Description: "Names such as api.example.com, *.example.com for all names below example.com at any depth, and " +
			"* for every name.",
	}
}

type allowInput struct {
	change
	Body struct {
		Hosts allowedHosts `json:"hosts"`
	} `json:"body"`
}

// Example implements function.Exampler.
func (allowInput) Example() any {
	var in allowInput
	in.Body.Hosts = allowedHosts{"api.openai.com", "*.github.com"}
	return in
}

// AllowEgressHosts adds hosts to what an agent may reach. Its clients need not know the list, as those of Update do.
func AllowEgressHosts(agents agent.Store, d agent.Display) function.Route {
	return function.Route{
		Name: "AllowEgressHosts", Method: http.MethodPost, Path: "/api/v1/agents/{agent_id}/egress-hosts",
		Access: function.Admin,
		Needs:  []function.Need{function.Firestore, function.Publish, function.NudgeWebhooks},
		Status: http.StatusOK, Summary: "Allow an agent to reach more hosts", Errors: []fault.Kind{fault.Conflict},
		Rehearsal: function.Rehearse(rehearsal.Of(d)),
		Handle: function.Handle(func(ctx context.Context, in allowInput) (agent.View, error) {
			now := time.Now().UTC()
			a, err := agents.Change(ctx, in.id(),
				in.unlessChanged(func(a *agent.Agent) error { return a.AllowHosts(in.Body.Hosts, now) }))
			return show(ctx, a, d), err
		}, agent.AllowViolations),
	}
}
