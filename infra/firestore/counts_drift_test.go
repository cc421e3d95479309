package firestore

import (
	"cmp"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// countTenant is an organization whose agents and keys a test counts.
type countTenant struct {
	agenttest.Tenant
	t      *testing.T
	client *Client
	counts *Counts
	agents *Agents
}

func newCountTenant(t *testing.T, counts *Counts) countTenant {
	t.Helper()
	c := counts.client
	return countTenant{agentFixture(c).Tenant(t, plan.Enterprise), t, c, counts, c.Agents(&agenttest.Nudges{})}
}

// forEachCountPage runs a test with counts that read an organization in one page, and in many.
func forEachCountPage(t *testing.T, test func(*testing.T, *Counts)) {
	t.Helper()
	for name, size := range map[string]int{"one page": countPage, "many pages": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &Counts{client: open(t, "", Options{}), page: size})
		})
	}
}

// fill creates keys, and agents in all statuses. It returns their usage.
func (n countTenant) fill() organization.Usage {
	n.t.Helper()
	var sum organization.Usage
	for i, status := range []agent.Status{
		agent.Provisioning, agent.Running, agent.Paused, agent.Stopped, agent.Error, agent.Deleting,
	} {
		a, err := n.client.WorkerStore().Update(n.Ctx, n.Create(plan.All()[i].ID),
			func(a *agent.Agent) { a.Status = status })
		must(n.t, err)
		sum = sum.Plus(a.HeldUsage())
	}
	_, err := n.client.WorkerStore().Update(n.Ctx, n.Create(plan.Hobby), func(a *agent.Agent) {
		a.Status = agent.Error // its creation ended halfway, so it holds nothing
		a.Operations = []secret.Operation{{
			ID: "o", Key: "TOKEN", Status: secret.Pending, Stage: secret.Store, RequiredToStart: true,
		}}
	})
	must(n.t, err)
	for range 3 {
		_, err := n.client.Keys().Create(n.Ctx, newKey())
		must(n.t, err)
		sum.APIKeys++
	}
	return sum
}

// spoil overwrites the organization's recorded usage.
func (n countTenant) spoil(u organization.Usage) {
	n.t.Helper()
	must(n.t, n.client.overwriteUsage(n.Ctx, n.ID, u))
}

// recountWants recounts and checks the drift (nil for none) and the recorded usage afterwards.
func (n countTenant) recountWants(drift *organization.Drift, usage organization.Usage) {
	n.t.Helper()
	got, found, err := n.counts.Recount(n.Ctx, n.ID)
	if err != nil {
		n.t.Errorf("recount: %v", err)
	}
	if wantFound := drift != nil; found != wantFound {
		n.t.Errorf("recount found a drift = %t, want %t", found, wantFound)
	}
	want := organization.Drift{}
	if drift != nil {
		want = *drift
	}
	if got != want {
		n.t.Errorf("drift = %+v, want %+v", got, want)
	}
	if got := n.Usage(); got != usage {
		n.t.Errorf("recorded usage = %+v, want %+v", got, usage)
	}
}

func TestCounts_PagesListEachOrganizationOnce(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		if ids, err := counts.Organizations(t.Context(), "", 10); err != nil || len(ids) != 0 {
			t.Errorf("organizations of an empty store = %v, %v; want none", ids, err)
		}
		want := make([]string, 7)
		for i := range want {
			want[i] = newCountTenant(t, counts).ID
		}
		slices.SortFunc(want, cmp.Compare[string])
		for _, limit := range []int{1, 2, 3, 7, 8} {
			var got []string
			for after := ""; ; {
				ids, err := counts.Organizations(t.Context(), after, limit)
				if err != nil || len(ids) > limit {
					t.Fatalf("at most %d organizations after %q: %v, %v", limit, after, ids, err)
				}
				if got = append(got, ids...); len(ids) < limit {
					break
				}
				after = ids[len(ids)-1]
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("pages of %d = %v, want %v", limit, got, want)
			}
		}
	})
}

func TestRecount_FindsNoDriftInACorrectUsage(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		n.recountWants(nil, organization.Usage{})
		held := n.fill()
		for range 2 {
			n.recountWants(nil, held)
		}
	})
}

// TestRecount_RepairsADriftInAnyField overwrites each field with a higher and a lower value, and then all of them.
func TestRecount_RepairsADriftInAnyField(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		held := n.fill()
		for _, off := range []organization.Usage{
			{Agents: 1},
			{Agents: -2},
			{CPUMillis: 1},
			{CPUMillis: -500},
			{MemoryBytes: 1 << 30},
			{StorageBytes: -1},
			{APIKeys: 1},
			{APIKeys: -10},
			{Agents: 9, CPUMillis: -9, MemoryBytes: 9, StorageBytes: -9, APIKeys: 9},
			organization.Usage{}.Minus(held),
		} {
			n.spoil(held.Plus(off))
			n.recountWants(&organization.Drift{OrganizationID: n.ID, Counted: held, Recorded: held.Plus(off)}, held)
			n.recountWants(nil, held) // the drift is gone
		}
	})
}

func TestRecount_FindsNoDriftOfAnUnknownOrganization(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		for _, id := range []string{"org_" + agenttest.ID(), "", "a/b", "..", "\xff"} {
			drift, found, err := counts.Recount(t.Context(), id)
			if err != nil || found || drift != (organization.Drift{}) {
				t.Errorf("recount of %q = %+v, %t, %v; want no drift", id, drift, found, err)
			}
		}
	})
}

func TestRecount_RepairsOnlyItsOrganization(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		one, other := newCountTenant(t, counts), newCountTenant(t, counts)
		held, others := one.fill(), other.fill().Plus(organization.Usage{Agents: 1})
		other.spoil(others)
		one.recountWants(nil, held)
		if got := other.Usage(); got != others {
			t.Errorf("recorded usage of another organization = %+v, want %+v", got, others)
		}
	})
}

func TestRecount_CountsAgentsOnADeletedPlan(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		held := n.fill()
		a := n.Create(plan.Hobby)
		all := held.Plus(a.HeldUsage())
		ref, _ := n.client.agent(a.ID)
		_, err := ref.Update(t.Context(), []gcp.Update{{Path: "plan", Value: "golden"}})
		must(t, err)
		n.recountWants(nil, all)
		spoiled := all.Plus(organization.Usage{Agents: 1})
		n.spoil(spoiled)
		n.recountWants(&organization.Drift{OrganizationID: n.ID, Counted: all, Recorded: spoiled}, all)
		a, err = n.client.WorkerStore().Load(t.Context(), a.ID)
		must(t, err)
		must(t, n.client.WorkerStore().Remove(n.Ctx, a, agent.Deletion{}))
		n.recountWants(nil, held)
	})
}

func TestRecount_OneOfSeveralConcurrentOnesFindsTheDrift(t *testing.T) {
	t.Parallel()
	forEachCountPage(t, func(t *testing.T, counts *Counts) {
		n := newCountTenant(t, counts)
		held := n.fill()
		n.spoil(organization.Usage{})
		const racers = 6
		found, errs := make([]bool, racers), make([]error, racers)
		var all sync.WaitGroup
		for i := range racers {
			all.Go(func() { _, found[i], errs[i] = counts.Recount(n.Ctx, n.ID) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("concurrent recounts: %v", err)
		}
		if finders := len(slices.DeleteFunc(found, func(f bool) bool { return !f })); finders != 1 {
			t.Errorf("%d concurrent recounts found the drift, want 1", finders)
		}
		if got := n.Usage(); got != held {
			t.Errorf("recorded usage = %+v, want %+v", got, held)
		}
	})
}

// The agent of a later release's plan holds what its record says. Without amounts, the organization's usage is left
// alone: a lower one would sell what the agent holds to another agent.
func TestRecount_KeepsWhatAnAgentOfAnUnknownPlanHolds(t *testing.T) {
	t.Parallel()
	for name, recorded := range map[string]bool{"amounts": true, "no amounts": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, "", Options{})
			x := newTenantFixture(t, c)
			before := x.org.Usage()
			list := []gcp.Update{{Path: "plan", Value: "later"}}
			if !recorded {
				list = append(list, gcp.Update{Path: "held", Value: gcp.Delete})
			}
			_, err := x.document(agentCollection).Update(t.Context(), list)
			must(t, err)
			_, found, err := c.Counts().Recount(t.Context(), x.org.ID)
			if found || (err == nil) != recorded {
				t.Errorf("Recount = %t, %v, want no drift, and an error without amounts only", found, err)
			}
			if after := x.org.Usage(); after != before {
				t.Errorf("the usage is %+v, want %+v", after, before)
			}
		})
	}
}

// A release changes the sizes of a plan: what the former one charged for an agent is given back.
func TestUsage_GivesBackWhatWasCharged(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	x := newTenantFixture(t, c)
	charged := organization.Usage{Agents: 1, CPUMillis: 7, MemoryBytes: 8, StorageBytes: 9}
	keys := organization.Usage{APIKeys: x.org.Usage().APIKeys}
	_, err := x.document(agentCollection).Update(t.Context(),
		[]gcp.Update{{Path: "held", Value: usageFields(&charged).encode()}})
	must(t, err)
	must(t, c.overwriteUsage(t.Context(), x.org.ID, charged.Plus(keys)))
	_, err = c.Agents(nil).Change(x.org.Ctx, x.agent.ID, stop)
	must(t, err)
	if got, want := x.org.Usage(), (organization.Usage{Agents: 1, StorageBytes: 9}).Plus(keys); got != want {
		t.Errorf("the usage of a stopped agent is %+v, want %+v", got, want)
	}
	must(t, c.WorkerStore().Remove(t.Context(), x.loadAgent(t), agent.Deletion{}))
	if got := x.org.Usage(); got != keys {
		t.Errorf("the usage without the agent is %+v, want %+v", got, keys)
	}
}
