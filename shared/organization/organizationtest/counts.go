package organizationtest

import (
	"cmp"
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// CountsFixture is an empty store, and what the tests need to fill and to corrupt it.
type CountsFixture struct {
	Counts    organization.Counts
	Directory organization.Directory
	Agents    agent.Store
	Records   agent.WorkerStore
	Keys      apikey.Store
	// SetPlan puts an organization on a plan. It creates the organization's record if there is none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
	// Spoil overwrites the organization's recorded usage.
	Spoil func(ctx context.Context, organizationID string, u organization.Usage) error
}

// TestCounts tests that an organization.Counts keeps its contract. open makes an empty fixture.
func TestCounts(t *testing.T, open func(*testing.T) CountsFixture) {
	for name, test := range map[string]func(*testing.T, CountsFixture){
		"pages list every organization once":                 pagesListEveryOrganization,
		"a correct usage is no drift":                        correctUsageIsNoDrift,
		"a drift in any field is found and repaired":         driftIsRepaired,
		"an unknown organization has no drift":               unknownOrganizationHasNoDrift,
		"a recount repairs only its organization":            recountRepairsOneOrganization,
		"only one of several concurrent recounts finds it":   concurrentRecounts,
		"concurrent changes are no drift":                    concurrentChangesAreNoDrift,
		"a repair loses no concurrent change":                repairKeepsConcurrentChanges,
		"a recount of all organizations reports every drift": recountOfAllReportsEveryDrift,
		"changes after a repair use the repaired usage":      changesAfterRepair,
		"agents on a deleted plan are counted":               agentsOnDeletedPlanAreCounted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// tenant is an organization of a test that has agents and keys, with the context of its requests.
type tenant struct {
	t       *testing.T
	fixture CountsFixture
	id      string
	ctx     context.Context
}

func (w CountsFixture) tenant(t *testing.T) tenant {
	t.Helper()
	id := "org_" + random()
	if err := w.SetPlan(t.Context(), id, plan.Enterprise); err != nil {
		t.Fatalf("organizationtest: set the plan: %v", err)
	}
	return tenant{t, w, id, call.As(t.Context(),
		identity.Caller{ID: "u", OrganizationID: id, Role: identity.RoleAdmin})}
}

// mustCreateAgent creates an agent of a size, or fails the test.
func (n tenant) mustCreateAgent(size plan.ID) agent.Agent {
	n.t.Helper()
	a, err := n.createAgent(size)
	if err != nil {
		n.t.Fatalf("organizationtest: create an agent: %v", err)
	}
	return a
}

func (n tenant) createAgent(size plan.ID) (agent.Agent, error) {
	id := random() + random()
	id = id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:]
	return n.fixture.Agents.Create(n.ctx, agent.New(id, "cell-1", agent.Draft{Name: "a", Plan: size}, time.Now()))
}

func (n tenant) createKey() (apikey.Key, error) {
	return n.fixture.Keys.Create(n.ctx, apikey.Key{ID: random(), Hash: random(), CreatedAt: time.Now()})
}

// fill creates keys, and agents in all statuses. It returns their usage.
func (n tenant) fill() organization.Usage {
	n.t.Helper()
	var sum organization.Usage
	for i, status := range []agent.Status{
		agent.Provisioning, agent.Running, agent.Paused, agent.Stopped, agent.Error,
		agent.Deleting,
	} {
		a, err := n.fixture.Records.Update(n.ctx, n.mustCreateAgent(plan.All()[i].ID),
			func(a *agent.Agent) { a.Status = status })
		if err != nil {
			n.t.Fatalf("organizationtest: set the status of an agent: %v", err)
		}
		sum = sum.Plus(a.HeldUsage())
	}
	for range 3 {
		if _, err := n.createKey(); err != nil {
			n.t.Fatalf("organizationtest: create a key: %v", err)
		}
		sum.APIKeys++
	}
	return sum
}

// recordedUsage reads the organization's recorded usage.
func (n tenant) recordedUsage() organization.Usage {
	n.t.Helper()
	o, err := n.fixture.Directory.Organization(n.ctx, n.id)
	if err != nil {
		n.t.Fatalf("organizationtest: read the organization: %v", err)
	}
	return o.Usage
}

func (n tenant) spoil(u organization.Usage) {
	n.t.Helper()
	if err := n.fixture.Spoil(n.ctx, n.id, u); err != nil {
		n.t.Fatalf("organizationtest: overwrite the recorded usage: %v", err)
	}
}

// recountWants recounts and checks the drift (nil for none) and the recorded usage afterwards.
func (n tenant) recountWants(drift *organization.Drift, usage organization.Usage) {
	n.t.Helper()
	got, found, err := n.fixture.Counts.Recount(n.ctx, n.id)
	if err != nil {
		n.t.Errorf("organizationtest: recount: %v", err)
	}
	if wantFound := drift != nil; found != wantFound {
		n.t.Errorf("organizationtest: recount found a drift = %t, want %t", found, wantFound)
	}
	want := organization.Drift{}
	if drift != nil {
		want = *drift
	}
	if got != want {
		n.t.Errorf("organizationtest: drift = %+v, want %+v", got, want)
	}
	if got := n.recordedUsage(); got != usage {
		n.t.Errorf("organizationtest: recorded usage = %+v, want %+v", got, usage)
	}
}

func pagesListEveryOrganization(t *testing.T, w CountsFixture) {
	if ids, err := w.Counts.Organizations(t.Context(), "", 10); err != nil || len(ids) != 0 {
		t.Errorf("organizationtest: organizations of an empty store = %v, %v; want none", ids, err)
	}
	want := make([]string, 7)
	for i := range want {
		want[i] = w.tenant(t).id
	}
	slices.SortFunc(want, cmp.Compare[string])
	for _, limit := range []int{1, 2, 3, 7, 8} {
		var got []string
		for after := ""; ; {
			ids, err := w.Counts.Organizations(t.Context(), after, limit)
			if err != nil || len(ids) > limit {
				t.Fatalf("organizationtest: at most %d organizations after %q: %v, %v", limit, after, ids, err)
			}
			if got = append(got, ids...); len(ids) < limit {
				break
			}
			after = ids[len(ids)-1]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("organizationtest: pages of %d = %v, want %v", limit, got, want)
		}
	}
}

func correctUsageIsNoDrift(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	n.recountWants(nil, organization.Usage{})
	held := n.fill()
	for range 2 {
		n.recountWants(nil, held)
	}
}

// driftIsRepaired overwrites each field with a higher and a lower value, and then all fields together.
func driftIsRepaired(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
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
		n.recountWants(&organization.Drift{OrganizationID: n.id, Counted: held, Recorded: held.Plus(off)}, held)
		n.recountWants(nil, held) // the drift is gone
	}
}

func unknownOrganizationHasNoDrift(t *testing.T, w CountsFixture) {
	for _, id := range []string{"org_" + random(), "", "a/b", "..", "\xff"} {
		drift, found, err := w.Counts.Recount(t.Context(), id)
		if err != nil || found || drift != (organization.Drift{}) {
			t.Errorf("organizationtest: recount of %q = %+v, %t, %v; want no drift", id, drift, found, err)
		}
	}
}

func recountRepairsOneOrganization(t *testing.T, w CountsFixture) {
	one, other := w.tenant(t), w.tenant(t)
	held, others := one.fill(), other.fill().Plus(organization.Usage{Agents: 1})
	other.spoil(others)
	one.recountWants(nil, held)
	if got := other.recordedUsage(); got != others {
		t.Errorf("organizationtest: recorded usage of another organization = %+v, want %+v", got, others)
	}
}

func agentsOnDeletedPlanAreCounted(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	held := n.fill()
	a, err := w.Records.Update(n.ctx, n.mustCreateAgent(plan.Hobby), func(a *agent.Agent) { a.Plan = "golden" })
	if err != nil {
		t.Fatalf("organizationtest: change the plan of an agent: %v", err)
	}
	n.recountWants(nil, held)
	n.spoil(held.Plus(organization.Usage{Agents: 1}))
	n.recountWants(&organization.Drift{
		OrganizationID: n.id, Counted: held,
		Recorded: held.Plus(organization.Usage{Agents: 1}),
	},
		held)
	if err := w.Records.Remove(n.ctx, a, agent.Deletion{}); err != nil {
		t.Fatalf("organizationtest: remove an agent: %v", err)
	}
	n.recountWants(nil, held)
}

func concurrentRecounts(t *testing.T, w CountsFixture) {
	n := w.tenant(t)
	held := n.fill()
	n.spoil(organization.Usage{})
	const racers = 6
	found, errs := make([]bool, racers), make([]error, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() { _, found[i], errs[i] = w.Counts.Recount(n.ctx, n.id) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("organizationtest: concurrent recounts: %v", err)
	}
	if finders := len(slices.DeleteFunc(found, func(f bool) bool { return !f })); finders != 1 {
		t.Errorf("organizationtest: %d concurrent recounts found the drift, want 1", finders)
	}
	if got := n.recordedUsage(); got != held {
		t.Errorf("organizationtest: recorded usage = %+v, want %+v", got, held)
	}
}
