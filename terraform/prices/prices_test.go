package prices_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/terraform/prices"
)

func load(t *testing.T) prices.List {
	t.Helper()
	list, err := prices.Load()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPrices_HaveSourcesAndDates(t *testing.T) {
	t.Parallel()
	for name, p := range load(t) {
		if p.USD <= 0 || p.Per <= 0 || p.Unit == "" || !strings.HasPrefix(p.Source, "https://cloud.google.com/") {
			t.Errorf("price of %s = %+v, want a positive price with a unit and a source", name, p)
		}
		if _, err := time.Parse(time.DateOnly, p.AsOf); err != nil {
			t.Errorf("price of %s: %v", name, err)
		}
	}
	if got := load(t).Of("gold", 1); !math.IsNaN(got) {
		t.Errorf("price of an item that is not listed = %v, want none", got)
	}
}

func near(got, want float64) bool { return math.Abs(got-want) < 0.005 }

// TestPods_AreBilledByAutopilotsRules holds pods inside and outside the limits. Prices are of a month of 730 hours.
func TestPods_AreBilledByAutopilotsRules(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name         string
		pod, want    prices.Pod
		wantUSDMonth float64
	}{
		{
			name: "within the limits", pod: prices.Pod{Millicores: 250, MemoryMiB: 1024},
			want: prices.Pod{Millicores: 250, MemoryMiB: 1024}, wantUSDMonth: 8.12 + 3.59,
		},
		{
			name: "much memory", pod: prices.Pod{Millicores: 200, MemoryMiB: 2048},
			want: prices.Pod{Millicores: 308, MemoryMiB: 2048}, wantUSDMonth: 10.01 + 7.19,
		},
		{
			name: "much CPU", pod: prices.Pod{Millicores: 1000, MemoryMiB: 512},
			want: prices.Pod{Millicores: 1000, MemoryMiB: 1024}, wantUSDMonth: 32.49 + 3.59,
		},
		{
			name: "tiny", pod: prices.Pod{Millicores: 10, MemoryMiB: 32},
			want: prices.Pod{Millicores: 50, MemoryMiB: 52}, wantUSDMonth: 1.62 + 0.18,
		},
	} {
		got := row.pod.Billed()
		if got != row.want {
			t.Errorf("%s: billed as %+v, want %+v", row.name, got, row.want)
		}
		if usd := load(t).Pod(got); math.Abs(usd-row.wantUSDMonth) > 0.02 {
			t.Errorf("%s: $%.2f a month, want $%.2f", row.name, usd, row.wantUSDMonth)
		}
	}
}

// TestPlans_CoverWhatTheirAgentsRequest holds the margin of 20 % over the pods and volumes of a fully used paid plan at
// list prices. The README's table says where Autopilot's minimums and backups take the margin away.
func TestPlans_CoverWhatTheirAgentsRequest(t *testing.T) {
	t.Parallel()
	const margin = 1.2
	paid := 0
	for _, p := range plan.All() {
		if p.PriceUSDMonth == nil || *p.PriceUSDMonth == 0 {
			continue
		}
		paid++
		if got := prices.Coverage(p, load(t).Agent(p).Requested); got < margin || math.IsNaN(float64(got)) {
			t.Errorf("the price of %s is %.3f times what its agents cost, want at least %v", p.ID, float64(got), margin)
		}
	}
	if paid != 4 {
		t.Errorf("%d plans have a price, want 4", paid)
	}
}

// TestPlans_LoseTheirMarginWhereTheReadmeSays holds the sentences about Autopilot below the table: it raises the CPU
// request of pods with much memory.
func TestPlans_LoseTheirMarginWhereTheReadmeSays(t *testing.T) {
	t.Parallel()
	for id, want := range map[plan.ID]struct{ least, most prices.Ratio }{
		plan.Starter:  {least: 1.2, most: 1.25},
		plan.Startup:  {least: 1.1, most: 1.2},
		plan.Pro:      {least: 0.8, most: 0.9},
		plan.Business: {least: 0.8, most: 0.9},
	} {
		p, err := plan.Get(id)
		if err != nil {
			t.Fatal(err)
		}
		if got := prices.Coverage(p, load(t).Agent(p).Billed); got < want.least || got > want.most {
			t.Errorf("the price of %s is %v times what Autopilot bills, want %v to %v", id, got, want.least, want.most)
		}
	}
}

// TestPlans_HaveDailySnapshotsThatTheirPriceCovers holds which plans have daily snapshots: all with a price, which
// covers what agents request, their secrets and the snapshots.
func TestPlans_HaveDailySnapshotsThatTheirPriceCovers(t *testing.T) {
	t.Parallel()
	for _, p := range plan.All() {
		free := p.PriceUSDMonth != nil && *p.PriceUSDMonth == 0
		if free != (p.DailySnapshots == 0) {
			t.Errorf("%s keeps daily snapshots for %d days", p.ID, p.DailySnapshots)
		}
		a := load(t).Agent(p)
		if got := prices.Coverage(p, a.Requested+a.Secrets+a.Snapshots); got < 1 {
			t.Errorf("the price of %s is %v times what its agents cost with snapshots", p.ID, got)
		}
	}
}

// TestAgents_CostWhatTheTableSays computes one row by hand: a startup agent requests 260 m and 2,080 MiB, of which
// Autopilot makes 313 m; its volume has 20 GiB.
func TestAgents_CostWhatTheTableSays(t *testing.T) {
	t.Parallel()
	p, err := plan.Get(plan.Startup)
	if err != nil {
		t.Fatal(err)
	}
	got := load(t).Agent(p)
	memory, scratch := 2.03125*0.0049225*730, 1.0625*0.0001389*730
	for what, row := range map[string]struct{ got, want float64 }{
		"requested": {got: got.Requested, want: 0.260*0.0445*730 + memory + scratch + 20*0.10},
		"billed":    {got: got.Billed, want: 0.313*0.0445*730 + memory + scratch + 20*0.10},
		"backup":    {got: load(t).Backup(p), want: 9 + 20*0.045},
		"secrets":   {got: got.Secrets, want: 4 * 0.06},
		"snapshots": {got: got.Snapshots, want: 20 * 0.5 * (1 + 7*0.02) * 0.05},
		"total":     {got: got.Total(), want: got.Billed + 0.24 + 0.57},
	} {
		if !near(row.got, row.want) {
			t.Errorf("%s = $%.3f, want $%.3f", what, row.got, row.want)
		}
	}
}

// TestBill_CountsEverySystemPod computes the rows that follow from the objects of a cell: three routers of 250 m and
// 1 GiB, two gates of 100 m and 512 MiB, the notifier of the same size, two canaries of 60 m and 96 MiB, and two
// placeholders of a starter agent.
func TestBill_CountsEverySystemPod(t *testing.T) {
	t.Parallel()
	const vcpu, gib = 0.0445 * 730, 0.0049225 * 730
	want := map[string]float64{
		"GKE clusters":                   2 * 73,
		"routers, gates, notifier and":   2 * (1.17*vcpu + 4.6875*gib + 0.625*0.0001389*730),
		"room that is kept ready":        2 * 2 * (0.26*vcpu + 1.03125*gib + 0.1014),
		"daily snapshots":                570,
		"agents' secrets":                240,
		"Cloud NAT":                      32*0.0014*730 + 4*0.005*730,
		"load balancers and Cloud Armor": 18.25 + 14 + 131.4*0.75,
		"an instance that holds":         2628000 * (0.000024 + 0.5*0.0000025),
		"the routers' metrics":           1000 * 3 * 11 * 43800 * 0.06 / 1e6,
	}
	rows, err := load(t).Bill(prices.Deployments()[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if math.IsNaN(r.USD) {
			t.Errorf("%s has no price", r.What)
		}
		for what, usd := range want {
			if strings.HasPrefix(r.What, what) {
				delete(want, what)
				if math.Abs(r.USD-usd) > 1 {
					t.Errorf("%s: $%.2f, want $%.2f", r.What, r.USD, usd)
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("the bill lacks rows: %v", want)
	}
}

// TestFlood_CostsAtMostThis holds what one address may cost a day below every limit, and that lines are a small part of
// it: stored for every request, they would cost more than the instances and the requests.
func TestFlood_CostsAtMostThis(t *testing.T) {
	t.Parallel()
	sum := func(rows []prices.Row) (sum float64) {
		for _, r := range rows {
			sum += r.USD
		}
		return sum
	}
	l := load(t)
	now, before := sum(l.Flood(false)), sum(l.Flood(true))
	if !(now <= 135 && before >= 185) {
		t.Errorf("a flood of one address costs $%.0f a day and $%.0f if every line is stored, want at most $135 and "+
			"at least $185", now, before)
	}
	b, err := os.ReadFile("../armor.tf")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("min(%d * var.rate_limit_factor", prices.FloodPerMinute)
	if !strings.Contains(string(b), want) {
		t.Errorf("armor.tf lacks %q: the flood has another size", want)
	}
}

// TestTables_SayWhereAPlanCostsMoreThanItBrings reads rows of the README's tables.
func TestTables_SayWhereAPlanCostsMoreThanItBrings(t *testing.T) {
	t.Parallel()
	plans, err := prices.Plans()
	if err != nil {
		t.Fatal(err)
	}
	bills, err := prices.Bills()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what string
		got  []string
		want string
	}{
		{what: "hobby", got: plans[1], want: "hobby|$0|1|$6.09|$6.09|–|$0.24|–|–|–|$9.22"},
		{what: "startup", got: plans[3], want: "startup|$109|5|$17.85|$19.57|$0.57|$0.24|1.22|1.11|1.07|$9.90"},
		{what: "pro", got: plans[4], want: "pro|$599|10|$49.53|$73.12|$1.14|$0.24|1.21|**0.82**|**0.80**|$10.80"},
		{
			what: "business", got: plans[5],
			want: "business|$2,999|25|$98.52|$145.86|$2.56|$0.24|1.22|**0.82**|**0.81**|$12.60",
		},
		{
			what: "enterprise", got: plans[6],
			want: "enterprise|by contract|100|$200.50|$295.30|$8.00|$0.24|–|–|–|$18.00",
		},
		{
			what: "snapshots", got: bills[3],
			want: "daily snapshots of agents' volumes, half full, of which 2 % change in a day|$0|$570|$0|$0",
		},
	} {
		if got := strings.Join(row.got, "|"); got != row.want {
			t.Errorf("the row of %s is %s, want %s", row.what, got, row.want)
		}
	}
}
