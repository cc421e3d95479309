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
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// CountsWorld is an empty store, and what a test needs to fill and to spoil it.
type CountsWorld struct {
	Counts    organization.Counts
	Directory organization.Directory
	Agents    agent.Store
	Records   agent.WorkerStore
	Keys      apikey.Store
	// SetPlan puts an organization on a plan, and creates its record if it has none.
	SetPlan func(ctx context.Context, organizationID string, p plan.ID) error
	// Spoil overwrites what the organization's record says that it holds.
	Spoil func(ctx context.Context, organizationID string, u organization.Usage) error
}

// TestCounts holds an organization.Counts to its promises. open makes an empty world.
func TestCounts(t *testing.T, open func(*testing.T) CountsWorld) {
	for name, test := range map[string]func(*testing.T, CountsWorld){
		"organizations":                 organizations,
		"recount what agrees":           recountAgrees,
		"recount what drifted":          recountDrifted,
		"recount what never was":        recountUnknown,
		"recount one of several":        recountOneOfSeveral,
		"recounts in a race":            recountsRace,
		"recount while changes race":    recountWhileChanging,
		"repair while changes race":     repairWhileChanging,
		"recount of every organization": recountEvery,
		"changes go on from the repair": changesAfterRepair,
		"agents on a plan that is gone": recountGonePlan,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// holder is an organization in a test that holds something.
type holder struct {
	t     *testing.T
	world CountsWorld
	id    string
	ctx   context.Context
}

func (w CountsWorld) holder(t *testing.T) holder {
	t.Helper()
	id := "org_" + random()
	if err := w.SetPlan(t.Context(), id, plan.Enterprise); err != nil {
		t.Fatal(err)
	}
	return holder{t, w, id, identity.With(t.Context(),
		identity.Caller{ID: "u", OrganizationID: id, Role: identity.RoleAdmin})}
}

// add creates an agent of a size.
func (h holder) add(size plan.ID) agent.Agent {
	h.t.Helper()
	a, err := h.create(size)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (h holder) create(size plan.ID) (agent.Agent, error) {
	id := random() + random()
	id = id[:8] + "-" + id[8:12] + "-4" + id[13:16] + "-8" + id[17:20] + "-" + id[20:]
	return h.world.Agents.Create(h.ctx, agent.New(id, "cell-1", agent.Draft{Name: "a", Plan: size}, time.Now()))
}

func (h holder) createKey() (apikey.Key, error) {
	return h.world.Keys.Create(h.ctx, apikey.Key{ID: random(), Hash: random(), CreatedAt: time.Now()})
}

// fill has the organization hold agents in all statuses and keys, and returns what they add up to.
func (h holder) fill() organization.Usage {
	h.t.Helper()
	var sum organization.Usage
	for i, status := range []agent.Status{agent.Provisioning, agent.Running, agent.Paused, agent.Stopped, agent.Error,
		agent.Deleting} {
		a, err := h.world.Records.Update(h.ctx, h.add(plan.All()[i].ID), func(a *agent.Agent) { a.Status = status })
		if err != nil {
			h.t.Fatal(err)
		}
		held, err := a.HeldUsage()
		if err != nil {
			h.t.Fatal(err)
		}
		sum = sum.Plus(held)
	}
	for range 3 {
		if _, err := h.createKey(); err != nil {
			h.t.Fatal(err)
		}
		sum.APIKeys++
	}
	return sum
}

func (h holder) usage() organization.Usage {
	h.t.Helper()
	o, err := h.world.Directory.Organization(h.ctx, h.id)
	if err != nil {
		h.t.Fatal(err)
	}
	return o.Usage
}

func (h holder) spoil(u organization.Usage) {
	h.t.Helper()
	if err := h.world.Spoil(h.ctx, h.id, u); err != nil {
		h.t.Fatal(err)
	}
}

// want recounts, and wants this drift, nil for none, and the record to say what is held.
func (h holder) want(drift *organization.Drift, held organization.Usage) {
	h.t.Helper()
	got, found, err := h.world.Counts.Recount(h.ctx, h.id)
	switch {
	case err != nil || found != (drift != nil):
		h.t.Errorf("drift %+v, found %t, %v; want %+v", got, found, err, drift)
	case found && got != *drift || !found && got != (organization.Drift{}):
		h.t.Errorf("drift %+v, want %+v", got, drift)
	}
	if u := h.usage(); u != held {
		h.t.Errorf("the record says %+v, want %+v", u, held)
	}
}

func organizations(t *testing.T, w CountsWorld) {
	if ids, err := w.Counts.Organizations(t.Context(), "", 10); err != nil || len(ids) != 0 {
		t.Errorf("of no organizations: %v, %v", ids, err)
	}
	want := make([]string, 7)
	for i := range want {
		want[i] = w.holder(t).id
	}
	slices.SortFunc(want, cmp.Compare[string])
	for _, limit := range []int{1, 2, 3, 7, 8} {
		var got []string
		for after := ""; ; {
			ids, err := w.Counts.Organizations(t.Context(), after, limit)
			if err != nil || len(ids) > limit {
				t.Fatalf("%d after %q: %v, %v", limit, after, ids, err)
			}
			if got = append(got, ids...); len(ids) < limit {
				break
			}
			after = ids[len(ids)-1]
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d at once: %v, want %v", limit, got, want)
		}
	}
}

func recountAgrees(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	h.want(nil, organization.Usage{})
	held := h.fill()
	for range 2 {
		h.want(nil, held)
	}
}

// recountDrifted spoils each figure, up and down, and all at once.
func recountDrifted(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	held := h.fill()
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
		h.spoil(held.Plus(off))
		h.want(&organization.Drift{OrganizationID: h.id, Counted: held, Recorded: held.Plus(off)}, held)
		h.want(nil, held) // it is found once
	}
}

func recountUnknown(t *testing.T, w CountsWorld) {
	for _, id := range []string{"org_" + random(), "", "a/b", "..", "\xff"} {
		drift, found, err := w.Counts.Recount(t.Context(), id)
		if err != nil || found || drift != (organization.Drift{}) {
			t.Errorf("%q: %+v, %t, %v; want nothing", id, drift, found, err)
		}
	}
}

// recountOneOfSeveral: what others hold is theirs.
func recountOneOfSeveral(t *testing.T, w CountsWorld) {
	one, other := w.holder(t), w.holder(t)
	held, others := one.fill(), other.fill().Plus(organization.Usage{Agents: 1})
	other.spoil(others)
	one.want(nil, held)
	if got := other.usage(); got != others {
		t.Errorf("the recount of one organization repaired another: %+v", got)
	}
}

func recountGonePlan(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	held := h.fill()
	a, err := w.Records.Update(h.ctx, h.add(plan.Hobby), func(a *agent.Agent) { a.Plan = "golden" })
	if err != nil {
		t.Fatal(err)
	}
	h.want(nil, held)
	h.spoil(held.Plus(organization.Usage{Agents: 1}))
	h.want(&organization.Drift{OrganizationID: h.id, Counted: held, Recorded: held.Plus(organization.Usage{Agents: 1})},
		held)
	if err := w.Records.Remove(h.ctx, a); err != nil {
		t.Fatal(err)
	}
	h.want(nil, held)
}

// recountsRace: of several recounts of one drift, one finds it.
func recountsRace(t *testing.T, w CountsWorld) {
	h := w.holder(t)
	held := h.fill()
	h.spoil(organization.Usage{})
	const racers = 6
	found, errs := make([]bool, racers), make([]error, racers)
	var all sync.WaitGroup
	for i := range racers {
		all.Go(func() { _, found[i], errs[i] = w.Counts.Recount(h.ctx, h.id) })
	}
	all.Wait()
	finders := len(slices.DeleteFunc(found, func(f bool) bool { return !f }))
	if err := errors.Join(errs...); err != nil || finders != 1 || h.usage() != held {
		t.Errorf("%d found the drift, the record says %+v (%v); want one and %+v", finders, h.usage(), err, held)
	}
}
