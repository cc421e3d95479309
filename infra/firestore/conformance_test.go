package firestore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey/apikeytest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/audittest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/billing/billingtest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics/metricstest"
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
			Store: c.Keys(), Finder: c.Keys(), Settled: c.Flush, Organization: c.Directory().Organization,
			Entries: c.entries,
		}
	})
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	audittest.TestLog(t, func(t *testing.T) audittest.World {
		c := open(t, "", Options{})
		at := func(t *testing.T, now time.Time) audit.Log {
			return open(t, c.project(), Options{Now: func() time.Time { return now }}).AuditLog()
		}
		return audittest.World{Log: at, SetPlan: c.setPlan, Entries: c.entries}
	})
}

func TestDirectory(t *testing.T) {
	t.Parallel()
	organizationtest.TestDirectory(t, func(t *testing.T) organizationtest.World {
		one := open(t, "", Options{})
		other := open(t, one.project(), Options{})
		return organizationtest.World{Processes: []organization.Directory{one.Directory(), other.Directory()},
			User: one.user}
	})
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	billingtest.Test(t, billingWorld)
}

func TestDesk(t *testing.T) {
	t.Parallel()
	billingtest.TestDesk(t, billingWorld)
}

func billingWorld(t *testing.T) billingtest.World {
	one := open(t, "", Options{})
	other := open(t, one.project(), Options{})
	return billingtest.World{
		Processes: []billing.Store{one.Accounts(), other.Accounts()}, Agents: one.Agents(&agenttest.Nudges{}),
		Directory: one.Directory(), Counts: one.Counts(), Entries: one.entries,
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"a page": countPage, "many pages": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			organizationtest.TestCounts(t, func(t *testing.T) organizationtest.CountsWorld {
				c := open(t, "", Options{})
				return organizationtest.CountsWorld{
					Counts: &Counts{client: c, page: size}, Directory: c.Directory(),
					Agents: c.Agents(&agenttest.Nudges{}), Records: c.WorkerStore(),
					Keys: c.Keys(), SetPlan: c.setPlan, Spoil: c.spoil,
				}
			})
		})
	}
}

// spoil overwrites an organization's usage, as a defect would.
func (c *Client) spoil(ctx context.Context, id string, u organization.Usage) error {
	ref, _ := c.ref(organizationCollection, id)
	_, err := ref.Update(ctx, setUsage(u))
	return err
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	metricstest.Test(t, func(t *testing.T) metricstest.World {
		c := open(t, "", Options{})
		w := agentWorld(c)
		return metricstest.World{
			Store: c.Metrics(), Records: c.Metrics(), Settled: c.Flush,
			Create: func(ctx context.Context) (agent.Agent, error) {
				if err := w.SetPlan(ctx, identity.From(ctx).OrganizationID, plan.Enterprise); err != nil {
					return agent.Agent{}, err
				}
				return w.Store.Create(ctx, agenttest.Draft(plan.Hobby))
			},
			Change: func(ctx context.Context, id string) error {
				_, err := w.Store.Change(ctx, id, stop)
				return err
			},
			Remove: func(ctx context.Context, id string) error {
				a, err := w.Records.Load(ctx, id)
				if err != nil {
					return err
				}
				return w.Records.Remove(ctx, a)
			},
			Forget: func(ctx context.Context, id string) error {
				ref, _ := c.ref(metricsCollection, id)
				_, err := ref.Delete(ctx)
				return err
			},
		}
	})
}

func agentWorld(c *Client) agenttest.World {
	nudges := &agenttest.Nudges{}
	return agenttest.World{
		Store: c.Agents(nudges), Records: c.WorkerStore(), Nudges: nudges, Organization: c.Directory().Organization,
		SetPlan: c.setPlan,
		Entries: c.entries, Log: c.AuditLog(),
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

// entries reads an organization's audit log as it is stored, also what has expired, in the order of its times.
func (c *Client) entries(ctx context.Context, organizationID string) ([]audit.Entry, error) {
	snaps, err := c.db.Collection(auditCollection).Where("organization_id", "==", organizationID).
		OrderBy("created_at", gcp.Desc).Documents(ctx).GetAll()
	if err != nil {
		return nil, err
	}
	slices.Reverse(snaps)
	entries := make([]audit.Entry, len(snaps))
	for i, snap := range snaps {
		if entries[i], err = entryOf(snap); err != nil {
			return nil, err
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
	u := organization.User{ID: id}
	err = decode(snaps[0], userFields(&u))
	return u, err
}
