// Package secrets has the routes of an agent's secrets and of their operations, one file a route. It does not write to
// the secret store, which package secretwrite does, nor to the agent's pod, which a worker does.
package secrets

import (
	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/secret"
)

// path is the input of routes that take only an agent's id.
type path struct {
	Path struct {
		AgentID function.UUID `json:"agent_id" jsonschema:"The agent's id."`
	} `json:"path"`
}

// operationPath names an operation of an agent.
type operationPath struct {
	Path struct {
		AgentID     function.UUID `json:"agent_id" jsonschema:"The agent's id."`
		OperationID function.UUID `json:"operation_id" jsonschema:"The id of the secret operation."`
	} `json:"path"`
}

// readsAgent names the agent in the path, so that the round trip that authenticates an API key reads it too.
func readsAgent(path func(string) string) document.Ref {
	return agent.Document(path("agent_id"))
}

// Accepted is the answer to a change of secrets. It lists the operations that carry out the change.
type Accepted struct {
	AgentID          string        `json:"agent_id" jsonschema:"The agent's id."`
	DashboardWarming bool          `json:"dashboard_warming" jsonschema:"True while the dashboard may be briefly unavailable because the pod is being replaced."`
	Operations       []secret.View `json:"operations" jsonschema:"One operation for each key that has to change, in the order of the keys."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (Accepted) AmendSchema(s *jsonschema.Schema) { s.Properties["agent_id"].Format = "uuid" }

// Example implements function.Exampler.
func (Accepted) Example() any {
	o, _ := secret.View{}.Example().(secret.View)
	return Accepted{AgentID: o.AgentID, DashboardWarming: true, Operations: []secret.View{o}}
}

func accepted(a agent.Agent, operations []secret.Operation) Accepted {
	answer := Accepted{AgentID: a.ID, DashboardWarming: a.Warming, Operations: make([]secret.View, len(operations))}
	for i, o := range operations {
		answer.Operations[i] = o.Show()
	}
	return answer
}
