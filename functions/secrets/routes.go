// Package secrets holds the routes of an agent's secrets and of the operations that bring them into it: one file a
// route. It knows what each takes and answers; how a value gets into the secret store is package deposit's, and what
// follows is a worker's.
package secrets

import (
	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/secret"
)

// path is the input of routes that take an agent's id and nothing else.
type path struct {
	Path struct {
		AgentID function.UUID `json:"agent_id"`
	} `json:"path"`
}

// operationPath names an operation of an agent.
type operationPath struct {
	Path struct {
		AgentID     function.UUID `json:"agent_id"`
		OperationID function.UUID `json:"operation_id"`
	} `json:"path"`
}

// readsAgent names the agent of the path, so that it is read in the round trip that authenticates an API key.
func readsAgent(path func(string) string) document.Ref {
	return agent.Document(path("agent_id"))
}

// Accepted is the answer to a change of secrets: what is being done about it.
type Accepted struct {
	AgentID          string        `json:"agent_id"`
	DashboardWarming bool          `json:"dashboard_warming" jsonschema:"True while the dashboard may be briefly unavailable because the pod is replaced."`
	Operations       []secret.View `json:"operations" jsonschema:"One for each key, in the order of the keys; none where nothing had to be done."`
}

// AmendSchema adds to the answer's description what its fields' types don't tell.
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
