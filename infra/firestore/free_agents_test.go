package firestore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// TestPlans_FreeOnesAllowOneAgent holds what makes the number of organizations that of free agents.
func TestPlans_FreeOnesAllowOneAgent(t *testing.T) {
	t.Parallel()
	for _, p := range plan.All() {
		if p.Free() && p.MaxAgents != 1 {
			t.Errorf("the free plan %s allows %d agents, and freeAgents counts one an organization", p.ID, p.MaxAgents)
		}
	}
}

// TestCreate_RefusesTheEleventhFreeAgent creates, deletes and moves agents of organizations on free plans, with a
// maximum of 10.
func TestCreate_RefusesTheEleventhFreeAgent(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", Options{MaxFreeAgents: 10, Now: func() time.Time { return now }})
	f := agentFixture(c)
	agents := c.Agents(&agenttest.Nudges{})
	create := func(about string, ctx context.Context, wantCode string) agent.Agent {
		t.Helper()
		a, err := agents.Create(ctx, agenttest.Draft(plan.Hobby))
		if fault.Code(err) != wantCode || wantCode != "" && !fault.Is(err, fault.PaymentRequired) {
			t.Errorf("%s: %v, want code %q", about, err, wantCode)
		}
		return a
	}
	const exhausted = "free_agents_exhausted"
	first := f.Tenant(t, plan.Hobby)
	mine := create("the first", first.Ctx, "")
	for range 9 {
		create("one of ten", f.Tenant(t, plan.Hobby).Ctx, "")
	}
	eleventh, paid := f.Tenant(t, plan.Hobby), f.Tenant(t, plan.Starter)
	create("the eleventh", eleventh.Ctx, exhausted)
	theirs := create("of a plan with a price", paid.Ctx, "")
	create("a second of one organization", first.Ctx, "plan_capacity_exceeded")
	if _, err := agents.Change(first.Ctx, mine.ID, stop); err != nil {
		t.Errorf("an agent that is counted cannot be stopped: %v", err)
	}
	now = now.Add(countedFor)
	if _, err := agents.Change(first.Ctx, mine.ID, func(a *agent.Agent) error {
		return a.Act(agent.Start, agent.Manual, now)
	}); err != nil {
		t.Errorf("an agent that is counted cannot be started: %v", err)
	}

	create("the eleventh, at the next count", eleventh.Ctx, exhausted)

	// A deletion frees a place at the next count.
	_, err := agents.Change(first.Ctx, mine.ID, func(a *agent.Agent) error {
		return a.RequestDeletion("user_1", now)
	})
	must(t, err)
	create("after a deletion, before the next count", eleventh.Ctx, exhausted)
	now = now.Add(countedFor)
	create("after a deletion", eleventh.Ctx, "")

	// An organization whose plan ends counts, and an upgrade ends that.
	now = now.Add(countedFor)
	must(t, c.Directory().SetPlan(t.Context(), eleventh.ID, plan.Starter))
	must(t, c.Directory().SetPlan(t.Context(), paid.ID, plan.Hobby))
	last := f.Tenant(t, plan.Hobby)
	create("after one upgrade and one end of a plan", last.Ctx, exhausted)
	must(t, c.Directory().SetPlan(t.Context(), paid.ID, plan.Starter))
	now = now.Add(countedFor)
	create("after two upgrades", last.Ctx, "")

	// On a plan that this release does not know, what an organization has can still end.
	ref, _ := c.ref(organizationCollection, paid.ID)
	_, err = ref.Update(t.Context(), []gcp.Update{{Path: "plan", Value: "gone"}})
	must(t, err)
	_, err = agents.Change(paid.Ctx, theirs.ID, stop)
	must(t, err)
}

// TestChange_RefusesAFreeAgentWhosePlaceIsTaken: the creations of two agents ended halfway, and another organization
// has the only place by now. They cannot take it again by a start, nor by the value that they lack, which is refused
// before it is stored, and not after.
func TestChange_RefusesAFreeAgentWhosePlaceIsTaken(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	c := open(t, "", Options{MaxFreeAgents: 1, Now: func() time.Time { return now }})
	f, agents := agentFixture(c), c.Agents(&agenttest.Nudges{})
	halfway := func(n agenttest.Tenant) string {
		a, err := c.WorkerStore().Update(n.Ctx, n.Create(plan.Hobby), func(a *agent.Agent) {
			o := secret.New(secret.Operation{ID: "o", Key: "LACKED", Action: secret.Set, RequiredToStart: true}, now)
			a.Status, a.Operations = agent.Error, []secret.Operation{o}
		})
		must(t, err)
		now = now.Add(countedFor + secret.StoringTime)
		return a.ID
	}
	start := func(a *agent.Agent) error { return a.Act(agent.Start, agent.Manual, now) }
	announce := func(a *agent.Agent) error {
		_, err := a.BeginOperations(a.SecretsRevision, []secret.Operation{
			{ID: "again", Key: "LACKED", Action: secret.Set, Bytes: 5},
		}, now)
		return err
	}
	record := func(a *agent.Agent) error {
		return a.RecordStored([]agent.Outcome{{OperationID: "again", Version: 1}}, now)
	}
	one, other := f.Tenant(t, plan.Hobby), f.Tenant(t, plan.Hobby)
	storing, refused := halfway(one), halfway(other)
	_, err := agents.Change(one.Ctx, storing, announce)
	must(t, err)
	now = now.Add(countedFor)
	f.Tenant(t, plan.Hobby).Create(plan.Hobby)
	now = now.Add(countedFor)
	for _, step := range []struct {
		about    string
		ctx      context.Context
		id       string
		change   func(*agent.Agent) error
		wantCode string
	}{
		{about: "a start", ctx: other.Ctx, id: refused, change: start, wantCode: "free_agents_exhausted"},
		{about: "a value", ctx: other.Ctx, id: refused, change: announce, wantCode: "free_agents_exhausted"},
		{about: "a value that is stored", ctx: one.Ctx, id: storing, change: record},
	} {
		if _, err := agents.Change(step.ctx, step.id, step.change); fault.Code(err) != step.wantCode {
			t.Errorf("%s: %v, want code %q", step.about, err, step.wantCode)
		}
	}
}

// TestCreate_RacesForFreeAgents creates agents concurrently in two processes with a maximum of 10. Each admits at most
// as many as its count leaves.
func TestCreate_RacesForFreeAgents(t *testing.T) {
	t.Parallel()
	now := agenttest.Now()
	options := Options{MaxFreeAgents: 10, Now: func() time.Time { return now }}
	one := open(t, "", options)
	other := open(t, one.project(), options)
	f := agentFixture(one)
	race := func(clients ...*Client) int64 {
		var created atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			ctx, agents := f.Tenant(t, plan.Hobby).Ctx, clients[i%len(clients)].Agents(&agenttest.Nudges{})
			all.Go(func() {
				_, err := agents.Create(ctx, agenttest.Draft(plan.Hobby))
				switch {
				case err == nil:
					created.Add(1)
				case fault.Code(err) != "free_agents_exhausted":
					t.Error(err)
				}
			})
		}
		all.Wait()
		return created.Load()
	}
	if got := race(one); got != 10 {
		t.Errorf("one process created %d agents, want 10", got)
	}
	if got := race(one, other); got != 0 {
		t.Errorf("two processes created %d more, want none", got)
	}
}

// TestCreate_LimitsNoFreeAgentsByDefault: without a maximum nothing is counted.
func TestCreate_LimitsNoFreeAgentsByDefault(t *testing.T) {
	t.Parallel()
	counts := 0
	c := open(t, "", Options{Observe: func(method string) {
		if method == "/google.firestore.v1.Firestore/RunAggregationQuery" {
			counts++
		}
	}})
	f := agentFixture(c)
	for range 11 {
		_, err := c.Agents(&agenttest.Nudges{}).Create(f.Tenant(t, plan.Hobby).Ctx, agenttest.Draft(plan.Hobby))
		must(t, err)
	}
	if counts != 0 {
		t.Errorf("the agents were counted %d times, want never", counts)
	}
}
