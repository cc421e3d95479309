package firestore

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/secretwrite"
)

// TestOrganization_KeepsItsRateLimits lets every writer of an organization's record write it after the limits are
// reached. Only a creation, a charge and an export may change the state of the limits.
func TestOrganization_KeepsItsRateLimits(t *testing.T) {
	t.Parallel()
	once := ratelimit.Limit{Quota: 1, Window: time.Hour}
	c := open(t, "", Options{Creations: once, SecretWrites: once, Exports: once})
	x := newTenantFixture(t, c)
	_, err := c.SecretBudget().Charge(x.org.Ctx, secretwrite.Cost{Secrets: 1})
	must(t, err)
	_, err = c.WorkerStore().AdmitExport(x.org.Ctx, x.agent, x.takeSnapshot(t), "a call")
	must(t, err)
	reached, err := c.Directory().Organization(x.org.Ctx, x.org.ID)
	must(t, err)
	if reached.CreationsFullAt.IsZero() || reached.SecretWritesFullAt.IsZero() || reached.ExportsFullAt.IsZero() {
		t.Fatalf("the limits are %v, %v and %v after a creation, a charge and an export, want all set",
			reached.CreationsFullAt, reached.SecretWritesFullAt, reached.ExportsFullAt)
	}
	system := call.As(x.org.Ctx, identity.Caller{Type: identity.System, ID: "operator", OrganizationID: x.org.ID})
	other := open(t, c.project(), Options{})
	for _, writer := range []struct {
		name  string
		write func() error
	}{
		{name: "recount", write: func() error {
			must(t, c.overwriteUsage(t.Context(), x.org.ID, organization.Usage{}))
			_, found, err := c.Counts().Recount(t.Context(), x.org.ID)
			if !found {
				t.Error("the recount repaired nothing")
			}
			return err
		}},
		{name: "change of an agent", write: func() error {
			_, err := c.Agents(nil).Change(x.org.Ctx, x.agent.ID, stop)
			return err
		}},
		{name: "new key", write: func() error {
			_, err := c.Keys().Create(x.org.Ctx, newKey())
			return err
		}},
		{name: "account", write: func() error {
			a, err := c.Accounts().Account(system, x.org.ID)
			must(t, err)
			a.Suspend(true, agenttest.Now())
			must(t, c.Accounts().Save(system, a, ""))
			if a, err = c.Accounts().Account(system, x.org.ID); err != nil {
				return err
			}
			must(t, c.Accounts().Postpone(system, a, agenttest.Now()))
			if a, err = c.Accounts().Account(system, x.org.ID); err != nil {
				return err
			}
			a.Suspend(false, agenttest.Now())
			return c.Accounts().Save(system, a, "")
		}},
		{name: "plan", write: func() error { return c.Directory().SetPlan(x.org.Ctx, x.org.ID, plan.Enterprise) }},
		{name: "session in another process", write: func() error {
			return errorOf(other.Directory().Ensure(x.org.Ctx, x.org.ID, organization.User{}))
		}},
		{name: "removal of an agent", write: func() error {
			return c.WorkerStore().Remove(x.org.Ctx, x.loadAgent(t), agent.Deletion{})
		}},
	} {
		must(t, writer.write())
		o, err := c.Directory().Organization(x.org.Ctx, x.org.ID)
		must(t, err)
		if o.CreationsFullAt != reached.CreationsFullAt {
			t.Errorf("%s: CreationsFullAt = %v, want %v", writer.name, o.CreationsFullAt, reached.CreationsFullAt)
		}
		if o.SecretWritesFullAt != reached.SecretWritesFullAt {
			t.Errorf("%s: SecretWritesFullAt = %v, want %v", writer.name, o.SecretWritesFullAt,
				reached.SecretWritesFullAt)
		}
		if o.ExportsFullAt != reached.ExportsFullAt {
			t.Errorf("%s: ExportsFullAt = %v, want %v", writer.name, o.ExportsFullAt, reached.ExportsFullAt)
		}
		if _, err := c.Agents(nil).Create(x.org.Ctx, agenttest.Draft(plan.Hobby)); !fault.Is(err, fault.RateLimited) {
			t.Errorf("%s: a creation over the limit: %v, want RateLimited", writer.name, err)
		}
	}
}

// TestCreate_CountsForDocumentsOfOtherReleases creates an agent in an organization whose document an older release
// wrote, without the state of the rate limit.
func TestCreate_CountsForDocumentsOfOtherReleases(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{Creations: ratelimit.Limit{Quota: 1, Window: time.Hour}})
	storeFixture(t, c, "testdata/documents/2026-11-first.json")
	ctx := fixtureContext(t)
	_, err := c.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby))
	must(t, err)
	if _, err := c.Agents(nil).Create(ctx, agenttest.Draft(plan.Hobby)); !fault.Is(err, fault.RateLimited) {
		t.Errorf("the second creation: %v, want RateLimited", err)
	}
}
