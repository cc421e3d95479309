package monitoring_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/monitoringemu"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/metrics/metricstest"
	"agents.example/controlplane/shared/plan"
)

// point returns a point whose interval began that many minutes before noon.
func point(minutes int, v float64) metrics.Point {
	return metrics.Point{T: minutesAgo(minutes).Unix(), V: v}
}

// The expected values are computed by hand from the raw points. The test reads them through the real client, with
// several page sizes and with points of other namespaces in between.
func TestCollector_ShowsWhatTheRawPointsAddUpTo(t *testing.T) {
	t.Parallel()
	ptr := func(v float64) *float64 { return &v }
	noon := noon()
	curves := metrics.Curves{
		CPU:      []metrics.Point{point(7, 0.25), point(6, 0.5), point(2, 6.0/135), point(1, 0.1)},
		Memory:   []metrics.Point{point(2, 256<<20), point(1, 512<<20)},
		Requests: []metrics.Point{point(3, 0.5), point(2, 0.55), point(1, 0.5)},
		Errors:   []metrics.Point{point(3, 0), point(2, 0.05), point(1, 0)},
	}
	for name, row := range map[string]struct {
		plan plan.ID
		raw  func(f fixture, host string) []monitoringemu.Sample
		want metrics.View
	}{
		"an agent in use": {plan: plan.Starter, raw: usedAgentPoints, want: metrics.View{
			Awake:  []agent.AwakeDay{},
			CPUPct: ptr(10), CPUCores: ptr(0.1), MemPct: ptr(25), MemoryBytes: ptr(512 << 20), PVCPct: ptr(12.5),
			UptimePct24h: ptr(100), LatencyP95MS: ptr(195), Series: curves, CollectedAt: &noon,
		}},
		"an agent whose plan no longer exists": {plan: "former", raw: usedAgentPoints, want: metrics.View{
			Awake:    []agent.AwakeDay{},
			CPUCores: ptr(0.1), MemoryBytes: ptr(512 << 20), PVCPct: ptr(12.5),
			UptimePct24h: ptr(100), LatencyP95MS: ptr(195), Series: curves, CollectedAt: &noon,
		}},
		"an idle agent": {plan: plan.Starter, raw: func(f fixture, _ string) []monitoringemu.Sample {
			return []monitoringemu.Sample{
				f.memoryPoint("non-evictable", minutesAgo(1), 1<<30),
			}
		}, want: metrics.View{
			Awake:  []agent.AwakeDay{},
			MemPct: ptr(50), MemoryBytes: ptr(1 << 30), UptimePct24h: ptr(100),
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
				f := newFixture(t, pageSize)
				got := f.collectAndShow(row.plan, row.raw)
				same := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9*math.Max(1, math.Abs(b)) })
				if diff := cmp.Diff(row.want, got, same,
					cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".agentID" },
						cmp.Ignore())); diff != "" {
					t.Errorf("page size %d: view (-want +got):\n%s", pageSize, diff)
				}
			}
		})
	}
}

// usedAgentPoints returns the raw points of an agent in use. Its container started 15 minutes before noon, crashed four
// minutes before noon, and was down for 45 seconds. Its counters started again at zero, and some minutes are missing.
func usedAgentPoints(f fixture, host string) []monitoringemu.Sample {
	restart := noon().Add(-195 * time.Second)
	raw := []monitoringemu.Sample{
		f.counterPoint(cpuTime, minutesAgo(15), minutesAgo(7), 100.0),
		f.counterPoint(cpuTime, minutesAgo(15), minutesAgo(6), 115.0),
		f.counterPoint(cpuTime, minutesAgo(15), minutesAgo(5), 145.0),
		f.counterPoint(cpuTime, restart, minutesAgo(1), 6.0), f.counterPoint(cpuTime, restart, minutesAgo(0), 12.0),
		f.memoryPoint("non-evictable", minutesAgo(1), 256<<20), f.memoryPoint("non-evictable", minutesAgo(0), 512<<20),
		f.memoryPoint("evictable", minutesAgo(0), 700<<20),
		f.volumePoint("data", minutesAgo(1), 0.125), f.volumePoint("tmp", minutesAgo(1), 0.5),
	}
	count := func(host, code string, values ...float64) { // at noon and the minutes before
		for i, v := range values {
			raw = append(raw, f.prometheusPoint(requested, minutesAgo(15), minutesAgo(len(values)-1-i), v,
				map[string]string{"host": host, "code": code}))
		}
	}
	count(host, "200", 100, 130, 160, 190)
	count(host, "503", 0, 0, 3, 3)
	other := hostname(uuid.NewString(), "cell")
	count(other, "200", 0, 600, 1200, 1800)
	for name, buckets := range map[string][]int64{host: {0, 20, 0, 0}, other: {0, 0, 500, 0}} {
		raw = append(raw, f.prometheusPoint(durations, minutesAgo(15), minutesAgo(7), histogram(0, 0, 0, 0),
			map[string]string{"host": name}),
			f.prometheusPoint(durations, minutesAgo(15), minutesAgo(0), histogram(buckets...),
				map[string]string{"host": name}))
	}
	return raw
}

// collectAndShow collects the metrics of the agent and of others at noon, and returns the view of a client.
func (f fixture) collectAndShow(p plan.ID, raw func(fixture, string) []monitoringemu.Sample) metrics.View {
	f.Helper()
	store := &metricstest.Memory{}
	a := agent.Agent{
		ID: f.agent, OrganizationID: "o", Cell: "cell", Plan: p, Slug: "bot", Status: agent.Running,
		Stages: agent.NewStages(),
	}
	a.EndStage(agent.StageReady, agent.StageSucceeded, minutesAgo(14))
	a = store.Put(a)
	addresses := agent.Addresses{Domain: domain}
	f.feed(raw(f, a.Hostname(addresses))...)
	for _, namespace := range []string{"kube-system", "agent-gateway", "agent-" + uuid.NewString()} {
		f.feed(withResourceLabel(f.volumePoint("data", minutesAgo(1), 0.5), "namespace_name", namespace),
			withResourceLabel(f.counterPoint(cpuTime, minutesAgo(15), minutesAgo(1), 1000.0), "namespace_name",
				namespace))
	}
	c := metrics.Collector{
		Agents: store.Agents(), Source: f.source, Records: store, Addresses: addresses, Now: noon,
	}
	if err := c.Collect(f.Context()); err != nil {
		f.Fatal(err)
	}
	s, err := store.Get(call.As(f.Context(), identity.Caller{OrganizationID: "o"}), a.ID)
	if err != nil {
		f.Fatal(err)
	}
	return s.Show(metrics.Window1h, noon())
}
