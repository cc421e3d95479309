// Package agents has the routes of agents and of what belongs to one, such as its secrets and its log: one file for a
// route or a family of similar routes. It does not have their rules: packages agent, secretwrite, credential, metrics
// and agentlog do.
package agents

import (
	"context"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/function"
)

// path is the input of routes that take only an agent's id.
type path struct {
	Path struct {
		AgentID function.UUID `json:"agent_id" jsonschema:"The agent's id."`
	} `json:"path"`
}

func (p path) id() string { return string(p.Path.AgentID) }

// change is the input of routes that change one agent: its id and, optionally, the version that the client has read.
type change struct {
	path
	condition
}

// condition is the version of the agent that the client has read, of a call that changes no other one.
type condition struct {
	Header struct {
		IfMatch string `json:"If-Match,omitempty" jsonschema:"The ETag of the version to change. If the agent has another version, the call fails with 412."`
	} `json:"header"`
}

// unlessChanged returns a change that fails if the agent no longer has the version that the client has read.
func (c condition) unlessChanged(apply func(*agent.Agent) error) func(*agent.Agent) error {
	return unlessChanged(c.Header.IfMatch, apply)
}

func unlessChanged(ifMatch string, apply func(*agent.Agent) error) func(*agent.Agent) error {
	return func(a *agent.Agent) error {
		if err := a.Match(ifMatch); err != nil {
			return err
		}
		return apply(a)
	}
}

// readsAgent names the agent in the path, so that the round trip that authenticates an API key reads it too.
func readsAgent(path func(string) string) document.Ref {
	return agent.Document(path("agent_id"))
}

// show renders an agent for the caller in ctx.
func show(ctx context.Context, a agent.Agent, d agent.Display) agent.View {
	return d.Show(ctx, a, call.From(ctx).Caller)
}
