package wire

import (
	"fmt"
	"testing"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// TestNew_BoundsFreeAgents creates free agents in a process whose configuration has a maximum of one.
func TestNew_BoundsFreeAgents(t *testing.T) {
	t.Parallel()
	c := newDeployment(t, 1).config
	c.MaxFreeAgents = 1
	o := New(t.Context(), c, Settings{})
	closeLater(t, o.Close)
	records, err := o.firestore()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"", "free_agents_exhausted"} {
		org := fmt.Sprintf("org_free_%d", i)
		ctx := call.As(t.Context(), identity.Caller{
			Type: identity.Session, ID: "user_1", OrganizationID: org, Role: identity.RoleAdmin,
		})
		if _, err := records.Directory().Ensure(ctx, org, organization.User{}); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby)); fault.Code(err) != want {
			t.Errorf("free agent %d: %v, want code %q", i+1, err, want)
		}
	}
}
