package containers

import (
	"context"
	"testing"
	"testing/synctest"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentexec"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
)

// paused is a store whose agent ran when it was read together with the key of the call, and is paused since.
type paused struct{ agent.Store }

func (paused) Get(ctx context.Context, id string) (agent.Agent, error) {
	a := agent.Agent{ID: id, Status: agent.Paused}
	if call.From(ctx).Fetched.Snapshot(agent.Document(id)) != nil {
		a.Status = agent.Running
	}
	return a, nil
}

type anyOrganization struct{ organization.Directory }

func (anyOrganization) Organization(context.Context, string) (organization.Organization, error) {
	return organization.Organization{}, nil
}

// TestBounded_ReadsTheAgentAfresh: a terminal that was opened with an API key ends after its agent is paused.
func TestBounded_ReadsTheAgentAfresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx := call.With(t.Context(), &call.Call{
			Caller:  identity.Caller{OrganizationID: "o"},
			Fetched: document.NewFetched(agent.Document("a"), "o", "then"),
		})
		s := Service{Agents: paused{}, Organizations: anyOrganization{}}
		open, end := session{Service: s, agent: agent.Agent{ID: "a"}}.bounded(ctx)
		defer end()
		<-open.Done()
		if why := context.Cause(open); fault.Code(why) != agentexec.CodeNotRunning {
			t.Errorf("the terminal ends with %v, want that no container runs", why)
		}
	})
}
