package metrics

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// shown is what a client sees of a snapshot, by field.
func shown(t *testing.T, v View) map[string]any {
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

// TestNothing shows every field of an agent of which nothing was collected: null is not zero.
func TestNothing(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"cpu_pct": nil, "mem_pct": nil, "pvc_pct": nil, "uptime_pct_24h": nil, "latency_p95_ms": nil, "cpu_cores": nil,
		"memory_bytes": nil,
		"restarts_24h": 0.0, "series": map[string]any{"cpu": []any{}, "memory": []any{}, "requests": []any{},
			"errors": []any{}},
		"collected_at": nil, "stale": true,
	}
	if diff := cmp.Diff(want, shown(t, New("a", "o").Show(Window24h, noon()))); diff != "" {
		t.Error(diff)
	}
}

// TestAges: a snapshot that was not renewed in time is stale, and what it says of the present ends sooner than what it
// says of the past.
func TestAges(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.CollectedAt = noon()
	s.Figures = Figures{CPUPct: value(1), CPUCores: value(1), UptimePct: value(99), Restarts: 2,
		LatencyMillis: value(80)}
	s.CPU.merge(at(map[int]float64{1: 1}))
	for _, row := range []struct {
		age      time.Duration
		stale    bool
		cpu      any
		restarts float64
		points   int
	}{
		{age: 0, stale: false, cpu: 1.0, restarts: 2, points: 1},
		{age: 6 * time.Minute, stale: false, cpu: 1.0, restarts: 2, points: 1},
		{age: 7 * time.Minute, stale: true, cpu: 1.0, restarts: 2, points: 1},
		{age: 14 * time.Minute, stale: true, cpu: 1.0, restarts: 2, points: 1},
		{age: 15 * time.Minute, stale: true, cpu: nil, restarts: 2, points: 1},
		{age: 23 * time.Hour, stale: true, cpu: nil, restarts: 2, points: 1},
		{age: 25 * time.Hour, stale: true, cpu: nil, restarts: 0, points: 0},
	} {
		v := shown(t, s.Show(Window24h, noon().Add(row.age)))
		points := v["series"].(map[string]any)["cpu"].([]any)
		if v["stale"] != row.stale || v["cpu_pct"] != row.cpu || v["cpu_cores"] != row.cpu ||
			v["restarts_24h"] != row.restarts ||
			v["latency_p95_ms"] != 80.0 || len(points) != row.points || v["collected_at"] != "2026-03-01T12:00:00Z" {
			t.Errorf("after %v: %v", row.age, v)
		}
	}
}

// TestWindows: points are ascending, and of the window.
func TestWindows(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.CPU.merge(always(24*60+30, 0, 1))
	for w, want := range map[Window]int{Window1h: 60, Window6h: 72, Window24h: 288, "": 288} {
		points := s.Show(w, noon()).Series.CPU
		if len(points) != want {
			t.Errorf("%s: %d points, want %d", w, len(points), want)
		}
		for i, p := range points {
			if p.T < noon().Add(-w.Duration()).Unix() || p.T > noon().Unix() || i > 0 && p.T <= points[i-1].T {
				t.Errorf("%s: point %d is at %d", w, i, p.T)
			}
		}
	}
}

// TestExposition: the figures in base units, without what is null.
func TestExposition(t *testing.T) {
	t.Parallel()
	s := New("6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a", "o")
	s.CollectedAt = noon()
	s.Figures = Figures{CPUPct: value(25), CPUCores: value(0.25), LatencyMillis: value(84), Restarts: 2}
	const text = `# HELP agent_cpu_usage_cores CPU in use.
# TYPE agent_cpu_usage_cores gauge
agent_cpu_usage_cores{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.25
# HELP agent_cpu_usage_ratio CPU in use, of the plan's limit.
# TYPE agent_cpu_usage_ratio gauge
agent_cpu_usage_ratio{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.25
# HELP agent_restarts_24h Restarts of the container in the last 24 hours.
# TYPE agent_restarts_24h gauge
agent_restarts_24h{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 2
# HELP agent_request_duration_p95_seconds The last known 95th percentile of what requests take.
# TYPE agent_request_duration_p95_seconds gauge
agent_request_duration_p95_seconds{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0.084
# HELP agent_metrics_collected_timestamp_seconds When the figures were read, in Unix time.
# TYPE agent_metrics_collected_timestamp_seconds gauge
agent_metrics_collected_timestamp_seconds{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 1.7723664e+09
# HELP agent_metrics_stale Whether the figures should have been read again since.
# TYPE agent_metrics_stale gauge
agent_metrics_stale{agent_id="6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a"} 0
`
	formats := s.Show(Window24h, noon()).Formats()
	if diff := cmp.Diff(text, string(formats[1].Encode())); diff != "" {
		t.Error(diff)
	}
	open := string(formats[0].Encode())
	if !strings.HasSuffix(open, "\n# EOF\n") || !strings.Contains(open, "# UNIT agent_cpu_usage_ratio ratio\n") ||
		strings.Contains(text, "# UNIT") {
		t.Error(open)
	}
	for line := range strings.Lines(open) {
		if unit, ok := strings.CutPrefix(line, "# UNIT "); ok {
			if name, unit, _ := strings.Cut(strings.TrimSpace(unit), " "); !strings.HasSuffix(name, "_"+unit) {
				t.Errorf("OpenMetrics wants a name that ends in its unit: %s", line)
			}
		}
	}
}
