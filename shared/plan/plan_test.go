package plan_test

import (
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/plan"
)

// TestPlans_EnforceTheDocumentedFigures compares the figures that clients read in the documentation with those that are
// enforced.
func TestPlans_EnforceTheDocumentedFigures(t *testing.T) {
	t.Parallel()
	const byContract = -1
	ports, images := []string{"all_ports", "exec"}, []string{"all_ports", "custom_images", "exec"}
	backups := []string{"all_ports", "daily_backups", "custom_images", "exec"}
	want := []struct {
		id                 plan.ID
		cpu                float64
		memoryGiB, diskGiB int64
		agents             int64
		webhooks           int
		priceUSD           float64
		features           []string
	}{
		{id: plan.Hobby, cpu: 0.5, memoryGiB: 1, diskGiB: 5, agents: 1, webhooks: 5, priceUSD: 0},
		{id: plan.Starter, cpu: 1, memoryGiB: 2, diskGiB: 10, agents: 3, webhooks: 5, priceUSD: 49, features: ports},
		{id: plan.Startup, cpu: 2, memoryGiB: 4, diskGiB: 20, agents: 5, webhooks: 5, priceUSD: 109, features: images},
		{id: plan.Pro, cpu: 2, memoryGiB: 8, diskGiB: 40, agents: 10, webhooks: 5, priceUSD: 599, features: images},
		{
			id: plan.Business, cpu: 4, memoryGiB: 16, diskGiB: 80, agents: 25, webhooks: 20, priceUSD: 2999,
			features: backups,
		},
		{
			id: plan.Enterprise, cpu: 8, memoryGiB: 32, diskGiB: 200, agents: 100, webhooks: 20, priceUSD: byContract,
			features: []string{"all_ports", "daily_backups", "audit_log", "custom_images", "exec"},
		},
	}
	all := plan.All()
	if len(all) != len(want) {
		t.Fatalf("plans.json has %d plans, want %d", len(all), len(want))
	}
	for i, w := range want {
		p := all[i]
		if p.ID != w.id {
			t.Errorf("plan %d is %s, want %s", i, p.ID, w.id)
		}
		if got, err := plan.Get(w.id); err != nil || got.ID != w.id {
			t.Errorf("Get(%s) = %s, %v", w.id, got.ID, err)
		}
		price := float64(byContract)
		if p.PriceUSDMonth != nil {
			price = *p.PriceUSDMonth
		}
		equal(t, w.id, "price is by contract", p.PriceUSDMonth == nil, w.priceUSD == byContract)
		equal(t, w.id, "CPUCores", p.CPUCores(), w.cpu)
		equal(t, w.id, "MemoryBytes", p.MemoryBytes(), w.memoryGiB<<30)
		equal(t, w.id, "StorageBytes", p.StorageBytes(), w.diskGiB<<30)
		equal(t, w.id, "MaxAgents", p.MaxAgents, w.agents)
		equal(t, w.id, "MaxWebhooks", p.MaxWebhooks, w.webhooks)
		equal(t, w.id, "PriceUSDMonth", price, w.priceUSD)
		equal(t, w.id, "features", strings.Join(p.Features, " "), strings.Join(w.features, " "))
		equal(t, w.id, "Has(AuditLog)", p.Has(plan.AuditLog), slices.Contains(w.features, "audit_log"))
		if p.CPURequestMillicores > p.CPULimitMillicores {
			t.Errorf("%s requests %dm CPU, more than its limit of %dm", w.id, p.CPURequestMillicores,
				p.CPULimitMillicores)
		}
		if p.MemoryRequestMiB > p.MemoryLimitMiB {
			t.Errorf("%s requests %d MiB, more than its limit of %d MiB", w.id, p.MemoryRequestMiB, p.MemoryLimitMiB)
		}
	}
}

// TestPlans_RequestThePromisedMemory holds the requests, which decide what a plan costs. Autopilot has no memory to
// burst into, so the larger plans request all that they promise.
func TestPlans_RequestThePromisedMemory(t *testing.T) {
	t.Parallel()
	for id, want := range map[plan.ID]struct{ cpuMillicores, memoryMiB int64 }{
		plan.Hobby:      {cpuMillicores: 100, memoryMiB: 512},
		plan.Starter:    {cpuMillicores: 250, memoryMiB: 1024},
		plan.Startup:    {cpuMillicores: 250, memoryMiB: 2048},
		plan.Pro:        {cpuMillicores: 500, memoryMiB: 8192},
		plan.Business:   {cpuMillicores: 1000, memoryMiB: 16384},
		plan.Enterprise: {cpuMillicores: 2000, memoryMiB: 32768},
	} {
		p, err := plan.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, id, "CPURequestMillicores", p.CPURequestMillicores, want.cpuMillicores)
		equal(t, id, "MemoryRequestMiB", p.MemoryRequestMiB, want.memoryMiB)
	}
	pro, err := plan.Get(plan.Pro)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range plan.All() {
		if pro.Fits(p) {
			equal(t, p.ID, "MemoryRequestMiB", p.MemoryRequestMiB, p.MemoryLimitMiB)
		}
	}
}

func equal[T comparable](t *testing.T, id plan.ID, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s = %v, want %v", id, what, got, want)
	}
}

// TestID_ValuesKeepTheDocumentedOrder holds the order that validation messages quote: it differs from that of the
// sizes.
func TestID_ValuesKeepTheDocumentedOrder(t *testing.T) {
	t.Parallel()
	want := []string{"hobby", "startup", "business", "enterprise", "starter", "pro"}
	if got := plan.ID("").Values(); !slices.Equal(got, want) {
		t.Errorf("Values = %v, want %v", got, want)
	}
}

func TestPlan_FitsItsOwnSizeAndLarger(t *testing.T) {
	t.Parallel()
	all := plan.All()
	for i, p := range all {
		for j, org := range all {
			if got, want := p.Fits(org), i <= j; got != want {
				t.Errorf("%s.Fits(%s) = %t, want %t", p.ID, org.ID, got, want)
			}
		}
	}
}

func TestPlan_NextIsTheNextLargerPlan(t *testing.T) {
	t.Parallel()
	all := plan.All()
	for i, p := range all {
		want := plan.ID("")
		if i+1 < len(all) {
			want = all[i+1].ID
		}
		if got := p.Next(); got != want {
			t.Errorf("%s.Next() = %q, want %q", p.ID, got, want)
		}
	}
}

func TestGet_FailsForAnUnknownPlan(t *testing.T) {
	t.Parallel()
	if p, err := plan.Get("golden"); err == nil {
		t.Errorf("Get(golden) = %+v, want an error", p)
	}
}
