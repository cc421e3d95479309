package firestore

import (
	"context"
	"strings"
	"testing"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey/apikeytest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/organization/organizationtest"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret/secrettest"
)

func TestAgents(t *testing.T) {
	t.Parallel()
	agenttest.TestStore(t, func(t *testing.T) agenttest.World { return agentWorld(open(t, "", Options{})) })
}

func TestRecords(t *testing.T) {
	t.Parallel()
	agenttest.TestRecords(t, func(t *testing.T) agenttest.World { return agentWorld(open(t, "", Options{})) })
}

func TestSecretOperations(t *testing.T) {
	t.Parallel()
	secrettest.TestOperations(t, func(t *testing.T) secrettest.World {
		c := open(t, "", Options{})
		return secrettest.World{World: agentWorld(c), Operations: c.Operations()}
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	apikeytest.Test(t, func(t *testing.T) apikeytest.World {
		c := open(t, "", Options{})
		return apikeytest.World{
			Store: c.Keys(), Finder: c.Keys(), Settled: c.touches.wait.Wait, Organization: c.Directory().Organization, Entries: c.entries,
		}
	})
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	organizationtest.TestDirectory(t, func(t *testing.T) organizationtest.World {
		one := open(t, "", Options{})
		other := open(t, one.project(), Options{})
		return organizationtest.World{Processes: []organization.Directory{one.Directory(), other.Directory()}, User: one.user}
	})
}

func agentWorld(c *Client) agenttest.World {
	nudges := &agenttest.Nudges{}
	return agenttest.World{
		Store: c.Agents(nudges), Records: c.Records(), Nudges: nudges, Organization: c.Directory().Organization, SetPlan: c.setPlan,
		Entries: c.entries,
	}
}

// project is the id of the client's project.
func (c *Client) project() string {
	return strings.Split(c.db.Collection(agentCollection).Path, "/")[1]
}

// setPlan does what billing does.
func (c *Client) setPlan(ctx context.Context, id string, p plan.ID) error {
	if err := c.Directory().Ensure(ctx, id, organization.User{}); err != nil {
		return err
	}
	ref, _ := c.ref(organizationCollection, id)
	_, err := ref.Update(ctx, []gcp.Update{{Path: "plan", Value: p}})
	return err
}

// entries reads an organization's audit log.
func (c *Client) entries(ctx context.Context, organizationID string) ([]audit.Entry, error) {
	snaps, err := c.db.Collection(auditCollection).Where("organization_id", "==", organizationID).
		OrderBy("created_at", gcp.Asc).Documents(ctx).GetAll()
	if err != nil {
		return nil, err
	}
	entries := make([]audit.Entry, len(snaps))
	for i, snap := range snaps {
		d, err := decode[entryDocument](snap)
		if err != nil {
			return nil, err
		}
		entries[i] = audit.Entry{
			ID: snap.Ref.ID, OrganizationID: d.OrganizationID, CreatedAt: d.CreatedAt, ExpiresAt: timeOf(d.ExpiresAt),
			Actor: identity.Caller{
				Type: d.Actor.Type, ID: d.Actor.ID, Email: d.Actor.Email, Role: d.Actor.Role, KeyPrefix: d.Actor.KeyPrefix,
			},
			Action: d.Action, Target: audit.Target(d.Target), Outcome: d.Outcome,
			Request: audit.Request{Action: d.Action, RequestID: d.RequestID, IP: d.IP, UserAgent: d.UserAgent},
		}
		for _, change := range d.Changes {
			entries[i].Changes = append(entries[i].Changes, audit.Change(change))
		}
	}
	return entries, nil
}

// user reads a user.
func (c *Client) user(ctx context.Context, id string) (organization.User, error) {
	ref, _ := c.ref(userCollection, id)
	snaps, err := c.read(ctx, ref)
	if err != nil {
		return organization.User{}, err
	}
	if !snaps[0].Exists() {
		return organization.User{}, fault.New(fault.NotFound, "not_found", "User not found.")
	}
	d, err := decode[userDocument](snaps[0])
	return organization.User{ID: id, Subject: d.Subject, Email: d.Email, Name: d.Name, CreatedAt: d.CreatedAt}, err
}
