package monitoring_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/metrics/metricstest"
	"agents.example/controlplane/shared/plan"
)

// point is a value by how many minutes before noon its interval began.
func point(minutes int, v float64) metrics.Point { return metrics.Point{T: ago(minutes).Unix(), V: v} }

// TestCollected holds what a client sees against what was computed by hand from the raw points, through the real
// client, in pages of any size, and with points of others in between.
func TestCollected(t *testing.T) {
	t.Parallel()
	f := func(v float64) *float64 { return &v }
	noon := noon()
	curves := metrics.Curves{
		CPU:      []metrics.Point{point(7, 0.25), point(6, 0.5), point(2, 6.0/135), point(1, 0.1)},
		Memory:   []metrics.Point{point(2, 256<<20), point(1, 512<<20)},
		Requests: []metrics.Point{point(3, 0.5), point(2, 0.55), point(1, 0.5)},
		Errors:   []metrics.Point{point(3, 0), point(2, 0.05), point(1, 0)},
	}
	for name, row := range map[string]struct {
		plan plan.ID
		raw  func(w world, host string) []monitoringemu.Sample
		want metrics.View
	}{
		"an agent that is used": {plan: plan.Starter, raw: used, want: metrics.View{
			CPUPct: f(10), CPUCores: f(0.1), MemPct: f(25), MemoryBytes: f(512 << 20), PVCPct: f(12.5), Restarts24h: 2,
			UptimePct24h: f(95), LatencyP95MS: f(195), Series: curves, CollectedAt: &noon,
		}},
		"an agent whose plan is no more": {plan: "former", raw: used, want: metrics.View{
			CPUCores: f(0.1), MemoryBytes: f(512 << 20), PVCPct: f(12.5), Restarts24h: 2,
			UptimePct24h: f(95), LatencyP95MS: f(195), Series: curves, CollectedAt: &noon,
		}},
		"an agent that nobody uses": {plan: plan.Starter, raw: func(w world, _ string) []monitoringemu.Sample {
			return []monitoringemu.Sample{w.memory("non-evictable", ago(1), 1<<30), w.raw(uptime, ago(1), 7200.0)}
		}, want: metrics.View{
			MemPct: f(50), MemoryBytes: f(1 << 30), UptimePct24h: f(100),
			Series: metrics.Curves{
				CPU: []metrics.Point{}, Memory: []metrics.Point{point(2, 1<<30)}, Requests: []metrics.Point{},
				Errors: []metrics.Point{},
			},
			CollectedAt: &noon,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, pageSize := range []int{0, 2, 5} {
				w := newWorld(t, pageSize)
				got := w.collected(row.plan, row.raw)
				same := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9*math.Max(1, math.Abs(b)) })
				if diff := cmp.Diff(row.want, got, same,
					cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".agentID" },
						cmp.Ignore())); diff != "" {
					t.Errorf("in pages of %d: %s", pageSize, diff)
				}
			}
		})
	}
}

// used are the raw points of an agent that is used. Its container was started 15 minutes before noon, crashed four
// minutes before, and was down for 45 seconds of the 15 minutes. Its counters began anew, and some minutes are missing.
func used(w world, host string) []monitoringemu.Sample {
	again := noon().Add(-195 * time.Second)
	raw := []monitoringemu.Sample{
		w.total(cpuTime, ago(15), ago(7), 100.0), w.total(cpuTime, ago(15), ago(6), 115.0),
		w.total(cpuTime, ago(15), ago(5), 145.0),
		w.total(cpuTime, again, ago(1), 6.0), w.total(cpuTime, again, ago(0), 12.0),
		w.memory("non-evictable", ago(1), 256<<20), w.memory("non-evictable", ago(0), 512<<20),
		w.memory("evictable", ago(0), 700<<20),
		w.volume("data", ago(1), 0.125), w.volume("tmp", ago(1), 0.5),
		w.total(restarted, ago(2000), ago(1500), int64(5)), w.total(restarted, ago(2000), ago(1000), int64(6)),
		w.total(restarted, ago(15), ago(1), int64(1)),
	}
	for minutes := 14; minutes >= 4; minutes-- {
		raw = append(raw, w.raw(uptime, ago(minutes), float64(60*(15-minutes))))
	}
	for minutes := 3; minutes >= 0; minutes-- {
		raw = append(raw, w.raw(uptime, ago(minutes), float64(195-60*minutes)))
	}
	count := func(host, code string, values ...float64) { // at noon and the minutes before
		for i, v := range values {
			raw = append(raw, w.scraped(requested, ago(15), ago(len(values)-1-i), v,
				map[string]string{"host": host, "code": code}))
		}
	}
	count(host, "200", 100, 130, 160, 190)
	count(host, "503", 0, 0, 3, 3)
	count("other."+domain, "200", 0, 600, 1200, 1800)
	for of, buckets := range map[string][]int64{host: {0, 20, 0, 0}, "other." + domain: {0, 0, 500, 0}} {
		raw = append(raw, w.scraped(durations, ago(15), ago(7), histogram(0, 0, 0, 0), map[string]string{"host": of}),
			w.scraped(durations, ago(15), ago(0), histogram(buckets...), map[string]string{"host": of}))
	}
	return raw
}

// collected collects the agent at noon, among others, and answers what a client sees.
func (w world) collected(p plan.ID, raw func(world, string) []monitoringemu.Sample) metrics.View {
	w.Helper()
	store := &metricstest.Memory{}
	a := agent.Agent{ID: w.agent, OrganizationID: "o", Cell: "cell", Plan: p, Slug: "bot", Status: agent.Running,
		Stages: agent.NewStages()}
	a.EndStage(agent.StageReady, agent.StageSucceeded, ago(14))
	a = store.Put(a)
	addresses := agent.Addresses{Domain: domain}
	w.feed(raw(w, a.Hostname(addresses))...)
	for _, namespace := range []string{"kube-system", "agent-gateway", "agent-" + uuid.NewString()} {
		w.feed(in(w.raw(uptime, ago(1), 60.0), "namespace_name", namespace),
			in(w.total(cpuTime, ago(15), ago(1), 1000.0), "namespace_name", namespace))
	}
	c := metrics.Collector{
		Agents: store.Agents(), Source: w.source, Records: store, Addresses: addresses, Now: noon,
	}
	if err := c.Collect(w.Context()); err != nil {
		w.Fatal(err)
	}
	s, err := store.Get(identity.With(w.Context(), identity.Caller{OrganizationID: "o"}), a.ID)
	if err != nil {
		w.Fatal(err)
	}
	return s.Show(metrics.Window1h, noon())
}
