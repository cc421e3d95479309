package metrics

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fieldsOf returns the JSON fields of a view.
func fieldsOf(t *testing.T, v View) map[string]any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(b, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestSnapshot_ShowRendersMissingValuesAsNull(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"cpu_pct": nil, "mem_pct": nil, "pvc_pct": nil, "uptime_pct_24h": nil, "latency_p95_ms": nil, "cpu_cores": nil,
		"memory_bytes": nil,
		"restarts_24h": 0.0, "series": map[string]any{
			"cpu": []any{}, "memory": []any{}, "requests": []any{},
			"errors": []any{},
		},
		"awake": []any{}, "collected_at": nil, "stale": true,
	}
	if diff := cmp.Diff(want, fieldsOf(t, New("a", "o").Show(Window24h, noon()))); diff != "" {
		t.Errorf("fields of an empty snapshot (-want +got):\n%s", diff)
	}
}

// TestSnapshot_ShowDropsOldFigures checks that an old snapshot is stale, and that it loses its figures about the
// present before those about the past.
func TestSnapshot_ShowDropsOldFigures(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.CollectedAt = noon()
	s.Figures = Figures{
		CPUPct: value(1), CPUCores: value(1), LatencyMillis: value(80),
	}
	s.Up.Set(noon(), 150)
	s.Due.Set(noon(), 300)
	s.Restarted.Set(noon(), 2)
	s.CPU.merge(at(map[int]float64{1: 1}))
	for _, row := range []struct {
		age          time.Duration
		wantStale    bool
		wantCPU      any
		wantUptime   any
		wantRestarts float64
		wantPoints   int
	}{
		{age: 0, wantStale: false, wantCPU: 1.0, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 6 * time.Minute, wantStale: false, wantCPU: 1.0, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 7 * time.Minute, wantStale: true, wantCPU: 1.0, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 14 * time.Minute, wantStale: true, wantCPU: 1.0, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 15 * time.Minute, wantStale: true, wantCPU: nil, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 23 * time.Hour, wantStale: true, wantCPU: nil, wantUptime: 50.0, wantRestarts: 2, wantPoints: 1},
		{age: 25 * time.Hour, wantStale: true, wantCPU: nil, wantUptime: nil, wantRestarts: 0, wantPoints: 0},
	} {
		fields := fieldsOf(t, s.Show(Window24h, noon().Add(row.age)))
		for field, want := range map[string]any{
			"stale": row.wantStale, "cpu_pct": row.wantCPU, "cpu_cores": row.wantCPU,
			"restarts_24h": row.wantRestarts, "uptime_pct_24h": row.wantUptime,
			"latency_p95_ms": 80.0, "collected_at": "2026-03-01T12:00:00Z",
		} {
			if got := fields[field]; got != want {
				t.Errorf("after %v: %s = %v, want %v", row.age, field, got, want)
			}
		}
		if got := len(fields["series"].(map[string]any)["cpu"].([]any)); got != row.wantPoints {
			t.Errorf("after %v: %d CPU points, want %d", row.age, got, row.wantPoints)
		}
	}
}

func TestSnapshot_ShowListsThePointsOfAWindowInOrder(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.CPU.merge(always(24*60+30, 0, 1))
	for w, want := range map[Window]int{Window1h: 60, Window6h: 72, Window24h: 288, "": 288} {
		points := s.Show(w, noon()).Series.CPU
		if len(points) != want {
			t.Errorf("%s: %d points, want %d", w, len(points), want)
		}
		for i, p := range points {
			if from := noon().Add(-w.Duration()).Unix(); p.T < from || p.T > noon().Unix() {
				t.Errorf("%s: point %d is at %d, want a time from %d to %d", w, i, p.T, from, noon().Unix())
			}
			if i > 0 && p.T <= points[i-1].T {
				t.Errorf("%s: point %d is at %d, not after the previous one at %d", w, i, p.T, points[i-1].T)
			}
		}
	}
}

// TestView_FormatsUseBaseUnits also checks that null figures are left out.
func TestView_FormatsUseBaseUnits(t *testing.T) {
	t.Parallel()
	s := New("6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a", "o")
	s.CollectedAt = noon()
	s.Figures = Figures{CPUPct: value(25), CPUCores: value(0.25), LatencyMillis: value(84)}
	s.Restarted.Set(noon(), 2)
	const text = `# HELP agent_cpu_usage_cores CPU in use.
# TYPE agent_cpu_usage_cores gauge
agent_cpu_usage_cores{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.25
# HELP agent_cpu_usage_ratio CPU in use, as a ratio of the plan's limit.
# TYPE agent_cpu_usage_ratio gauge
agent_cpu_usage_ratio{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.25
# HELP agent_restarts_24h Restarts of the container in the last 24 hours.
# TYPE agent_restarts_24h gauge
agent_restarts_24h{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 2
# HELP agent_request_duration_p95_seconds The last known 95th percentile of request latency.
# TYPE agent_request_duration_p95_seconds gauge
agent_request_duration_p95_seconds{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.084
# HELP agent_metrics_collected_timestamp_seconds When the figures were collected, in Unix time.
# TYPE agent_metrics_collected_timestamp_seconds gauge
agent_metrics_collected_timestamp_seconds{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 1.7723664e+09
# HELP agent_metrics_stale 1 if a newer collection is overdue, else 0.
# TYPE agent_metrics_stale gauge
agent_metrics_stale{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0
`
	formats := s.Show(Window24h, noon()).Formats()
	if diff := cmp.Diff(text, string(formats[1].Encode())); diff != "" {
		t.Errorf("Prometheus format (-want +got):\n%s", diff)
	}
	openMetrics := string(formats[0].Encode())
	if !strings.HasSuffix(openMetrics, "\n# EOF\n") {
		t.Errorf("OpenMetrics format has no end mark:\n%s", openMetrics)
	}
	if !strings.Contains(openMetrics, "# UNIT agent_cpu_usage_ratio ratio\n") {
		t.Errorf("OpenMetrics format has no unit of agent_cpu_usage_ratio:\n%s", openMetrics)
	}
	for line := range strings.Lines(openMetrics) {
		if unit, ok := strings.CutPrefix(line, "# UNIT "); ok {
			if name, unit, _ := strings.Cut(strings.TrimSpace(unit), " "); !strings.HasSuffix(name, "_"+unit) {
				t.Errorf("OpenMetrics requires that a name ends in its unit: %s", line)
			}
		}
	}
}
