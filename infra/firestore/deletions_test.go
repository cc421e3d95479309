package firestore

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
)

// observedDeletion is a deletion of which a worker observed everything, some seconds after it was requested.
func observedDeletion(requested time.Time) agent.Deletion {
	at := func(seconds int) time.Time { return requested.Add(time.Duration(seconds) * time.Second) }
	return agent.Deletion{
		RequestedAt: requested, RequestedBy: "user_1", ClusterRequestedAt: at(1), NamespaceGoneAt: at(2),
		VolumeGoneAt: at(3), SecretsRequestedAt: at(4), SecretsGoneAt: at(5),
	}
}

func (x tenantFixture) requestDeletion(t *testing.T, c *Client) agent.Agent {
	t.Helper()
	a, err := c.Agents(&agenttest.Nudges{}).Change(x.org.Ctx, x.agent.ID, func(a *agent.Agent) error {
		return a.RequestDeletion("user_1", agenttest.Now())
	})
	must(t, err)
	return a
}

func wantNoDeletion(ctx context.Context, t *testing.T, c *Client, when, id string) {
	t.Helper()
	if r, err := c.Deletions().Get(ctx, id); !fault.Is(err, fault.NotFound) {
		t.Errorf("the deletion %s = %+v, %v, want NotFound", when, r, err)
	}
}

func TestDeletions_FollowTheAgentFromItsRecordToTheirOwn(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	stranger := newTenantFixture(t, c)
	wantNoDeletion(x.org.Ctx, t, c, "of an agent that no client deleted", x.agent.ID)
	wantNoDeletion(x.org.Ctx, t, c, "of an agent that never existed", agenttest.ID())
	wantNoDeletion(x.org.Ctx, t, c, "of an id that is none", "no-id")

	a := x.requestDeletion(t, c)
	requested := a.Deletion.RequestedAt
	a, err := c.WorkerStore().Update(x.org.Ctx, a, func(a *agent.Agent) {
		a.Learn(agent.ClusterDeletionSeen{NamespaceGone: true, At: requested.Add(2 * time.Second)})
	})
	must(t, err)
	got, err := c.Deletions().Get(x.org.Ctx, a.ID)
	must(t, err)
	want := agent.DeletionRecord{
		AgentID: a.ID, OrganizationID: x.org.ID, Name: a.Name, Deletion: agent.Deletion{
			RequestedAt: requested, RequestedBy: "user_1", NamespaceGoneAt: requested.Add(2 * time.Second),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("during the deletion (-want +got):\n%s", diff)
	}
	wantNoDeletion(stranger.org.Ctx, t, c, "of another organization's agent, during it,", a.ID)

	want.Deletion = observedDeletion(requested)
	before := c.now()
	must(t, c.WorkerStore().Remove(x.org.Ctx, a, want.Deletion))
	got, err = c.Deletions().Get(x.org.Ctx, a.ID)
	must(t, err)
	if got.CompletedAt.Before(before.Add(-time.Second)) || got.CompletedAt.Before(want.SecretsGoneAt) {
		t.Errorf("CompletedAt = %v, want the time of the removal, which is after %v and the observations",
			got.CompletedAt, before)
	}
	if kept := got.ExpiresAt.Sub(before); kept < agent.DeletionRetention || kept > agent.DeletionRetention+time.Hour {
		t.Errorf("the deletion is kept for %v, want %v", kept, agent.DeletionRetention)
	}
	want.CompletedAt, want.ExpiresAt = got.CompletedAt, got.ExpiresAt
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after the removal (-want +got):\n%s", diff)
	}
	wantNoDeletion(stranger.org.Ctx, t, c, "of another organization's agent, after it,", a.ID)
	later := openAt(t, c.project(), got.ExpiresAt)
	wantNoDeletion(x.org.Ctx, t, later, "that has expired", a.ID)
}

// A worker's removal may be repeated after its answer was lost, also by another worker. The first one's observations
// stay.
func TestDeletions_KeepTheFirstRemoval(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	a := x.requestDeletion(t, c)
	d := observedDeletion(a.Deletion.RequestedAt)
	must(t, c.WorkerStore().Remove(x.org.Ctx, a, d))
	must(t, c.WorkerStore().Remove(x.org.Ctx, a, agent.Deletion{}))
	got, err := c.Deletions().Get(x.org.Ctx, a.ID)
	must(t, err)
	if diff := cmp.Diff(d, got.Deletion); diff != "" {
		t.Errorf("after a second removal (-want +got):\n%s", diff)
	}
}
