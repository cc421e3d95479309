package firestore

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/billing/billingtest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/image/imagetest"
	"agents.example/controlplane/shared/metrics/metricstest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

func TestAgents_Conform(t *testing.T) {
	t.Parallel()
	agenttest.TestStore(t, func(t *testing.T) agenttest.Fixture {
		c := open(t, "", Options{})
		w := agentFixture(c)
		w.Limited = func(_ testing.TB, creations ratelimit.Limit, now func() time.Time) agent.Store {
			return open(t, c.project(), Options{Creations: creations, Now: now}).Agents(w.Nudges)
		}
		return w
	})
}

func TestWorkerStore_Conforms(t *testing.T) {
	t.Parallel()
	agenttest.TestWorkerStore(t, func(t *testing.T) agenttest.Fixture { return agentFixture(open(t, "", Options{})) })
}

func TestAccounts_Conform(t *testing.T) {
	t.Parallel()
	billingtest.Test(t, billingFixture)
}

func TestAccounts_ConformWithService(t *testing.T) {
	t.Parallel()
	billingtest.TestService(t, billingFixture)
}

func billingFixture(t *testing.T) billingtest.Fixture {
	one := open(t, "", Options{})
	other := open(t, one.project(), Options{})
	return billingtest.Fixture{
		Processes: []billing.Store{one.Accounts(), other.Accounts()}, Agents: one.Agents(&agenttest.Nudges{}),
		Directory: one.Directory(), Counts: one.Counts(), Entries: one.readEntries,
	}
}

// overwriteUsage makes an organization's usage wrong, as a bug would.
func (c *Client) overwriteUsage(ctx context.Context, id string, u organization.Usage) error {
	ref, _ := c.ref(organizationCollection, id)
	_, err := ref.Update(ctx, setUsage(u))
	return err
}

func TestImages_Conform(t *testing.T) {
	t.Parallel()
	imagetest.Test(t, func(t *testing.T) imagetest.Fixture {
		var passed atomic.Int64
		now := func() time.Time { return imagetest.Now().Add(time.Duration(passed.Load())) }
		builtIn := image.BuiltIn{Platform: imagetest.Reference("platform", "0")}
		one := open(t, "", Options{Now: now, BuiltIn: builtIn})
		other := open(t, one.project(), Options{Now: now, BuiltIn: builtIn})
		return imagetest.Fixture{
			Processes: []imagetest.Process{
				{Store: one.Images(), Catalog: one.Images()}, {Store: other.Images(), Catalog: other.Images()},
			},
			Advance: func(d time.Duration) { passed.Add(int64(d)) }, BuiltIn: builtIn,
		}
	})
}

func TestMetrics_Conforms(t *testing.T) {
	t.Parallel()
	metricstest.Test(t, func(t *testing.T) metricstest.Fixture {
		c := open(t, "", Options{})
		w := agentFixture(c)
		return metricstest.Fixture{
			Store: c.Metrics(), Records: c.Metrics(), Flush: c.Flush,
			Create: func(ctx context.Context) (agent.Agent, error) {
				if err := w.SetPlan(ctx, call.From(ctx).Caller.OrganizationID, plan.Enterprise); err != nil {
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
				return w.Records.Remove(ctx, a, a.Deletion)
			},
			Forget: c.deleteSnapshot,
		}
	})
}

func agentFixture(c *Client) agenttest.Fixture {
	nudges := &agenttest.Nudges{}
	return agenttest.Fixture{
		Store: c.Agents(nudges), Records: c.WorkerStore(), Nudges: nudges, Organization: c.Directory().Organization,
		SetPlan: c.setPlan,
		Entries: c.readEntries, Log: c.AuditLog(),
	}
}

// project is the client's project.
func (c *Client) project() string {
	return strings.Split(c.db.Collection(agentCollection).Path, "/")[1]
}

// setPlan puts an organization on a plan, and creates its record if it has none.
func (c *Client) setPlan(ctx context.Context, id string, p plan.ID) error {
	if _, err := c.Directory().Ensure(ctx, id, organization.User{}); err != nil {
		return err
	}
	ref, _ := c.ref(organizationCollection, id)
	_, err := ref.Update(ctx, []gcp.Update{{Path: "plan", Value: p}})
	return err
}

// readEntries reads all stored audit entries of an organization, expired ones included, the oldest first.
func (c *Client) readEntries(ctx context.Context, organizationID string) ([]audit.Entry, error) {
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

func (c *Client) readUser(ctx context.Context, id string) (organization.User, error) {
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
