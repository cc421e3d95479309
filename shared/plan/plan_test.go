package plan_test

import (
	"slices"
	"testing"

	"agents.example/controlplane/shared/plan"
)

// TestTheTable checks the figures that clients are told against those that are enforced.
func TestTheTable(t *testing.T) {
	t.Parallel()
	want := []struct {
		id            plan.ID
		cpu           float64
		memory, disk  int64 // GiB
		agents, price int64
	}{
		{id: plan.Hobby, cpu: 0.5, memory: 1, disk: 5, agents: 1, price: 0},
		{id: plan.Starter, cpu: 1, memory: 2, disk: 10, agents: 3, price: 15},
		{id: plan.Startup, cpu: 2, memory: 4, disk: 20, agents: 5, price: 35},
		{id: plan.Pro, cpu: 2, memory: 8, disk: 40, agents: 10, price: 89},
		{id: plan.Business, cpu: 4, memory: 16, disk: 80, agents: 25, price: 199},
		{id: plan.Enterprise, cpu: 8, memory: 32, disk: 200, agents: 100, price: -1},
	}
	all := plan.All()
	if len(all) != len(want) || len(all) != len(plan.ID("").Values()) {
		t.Fatalf("%d plans", len(all))
	}
	for i, w := range want {
		p, err := plan.Get(w.id)
		if err != nil || all[i].ID != w.id || p.CPUCores() != w.cpu || p.MemoryBytes() != w.memory<<30 ||
			p.StorageBytes() != w.disk<<30 ||
			p.MaxAgents != w.agents || (p.PriceUSDMonth == nil) != (w.price < 0) ||
			(w.price >= 0 && *p.PriceUSDMonth != float64(w.price)) {
			t.Errorf("%s: %+v, %v", w.id, p, err)
		}
		if p.CPURequestMillicores > p.CPULimitMillicores || p.MemoryRequestMiB > p.MemoryLimitMiB {
			t.Errorf("%s requests more than its limit", w.id)
		}
		for j, other := range all {
			if p.Fits(other) != (i <= j) {
				t.Errorf("%s fits %s: %t", p.ID, other.ID, p.Fits(other))
			}
		}
		if !slices.Contains(plan.ID("").Values(), string(w.id)) || p.Has(plan.AuditLog) != (w.id == plan.Enterprise) {
			t.Errorf("%s: values or features are wrong", w.id)
		}
	}
	if all[0].Next() != plan.Starter || all[len(all)-1].Next() != "" {
		t.Error("the way up is wrong")
	}
	if _, err := plan.Get("golden"); err == nil {
		t.Error("a plan that does not exist was found")
	}
}
