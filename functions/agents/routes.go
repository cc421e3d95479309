// Package agents holds the routes of agents: one file a route, or a family of routes that differ in a word. It knows
// what each takes and answers; the rules are package agent's in shared.
package agents

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
)

// path is the input of routes that take an agent's id and nothing else.
type path struct {
	Path struct {
		AgentID function.UUID `json:"agent_id"`
	} `json:"path"`
}

func (p path) id() string { return string(p.Path.AgentID) }

// change is the input of routes that change one agent: its id, and the version that the client has seen, if it says so.
type change struct {
	path
	Header struct {
		IfMatch string `json:"If-Match,omitempty" jsonschema:"the ETag of the version to change; another version is refused with 412"`
	} `json:"header"`
}

// unlessChanged makes a change that is refused when the agent is another version than the client has seen.
func (c change) unlessChanged(apply func(*agent.Agent) error) func(*agent.Agent) error {
	return func(a *agent.Agent) error {
		if err := a.Match(c.Header.IfMatch); err != nil {
			return err
		}
		return apply(a)
	}
}

// readsAgent names the agent of the path, so that it is read in the round trip that authenticates an API key.
func readsAgent(path func(string) string) document.Ref {
	return agent.Document(path("agent_id"))
}

// show renders an agent for the caller in ctx.
func show(ctx context.Context, a agent.Agent, d agent.Addresses) agent.View {
	return a.Show(identity.From(ctx), d)
}
