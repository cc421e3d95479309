package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// Window is the time span of the series in a view.
type Window string

// The windows.
const (
	Window1h  Window = "1h"
	Window6h  Window = "6h"
	Window24h Window = "24h"
)

// Values lists the windows.
func (Window) Values() []string {
	return []string{string(Window1h), string(Window6h), string(Window24h)}
}

// Duration is the window's length. An empty or unknown window has the longest one.
func (w Window) Duration() time.Duration {
	switch w {
	case Window1h:
		return time.Hour
	case Window6h:
		return 6 * time.Hour
	default:
		return Day
	}
}

// Point is one value of a series.
type Point struct {
	T int64   `json:"t" jsonschema:"The start of the interval over which the value is averaged, in Unix seconds."`
	V float64 `json:"v" jsonschema:"The average over the interval."`
}

// Curves are the series of a window: one point per minute for an hour, one per five minutes for longer windows. Gaps
// are left out.
type Curves struct {
	CPU      []Point `json:"cpu" jsonschema:"CPU cores in use."`
	Memory   []Point `json:"memory" jsonschema:"Bytes of memory in use."`
	Requests []Point `json:"requests" jsonschema:"Requests per second on the agent's hostname, without checks of its health and credentials."`
	Errors   []Point `json:"errors" jsonschema:"Requests per second that were answered with a 5xx status."`
}

// View is the metrics of an agent as a client sees them.
type View struct {
	CPUPct       *float64         `json:"cpu_pct" jsonschema:"CPU in use, in percent of the plan's limit. This and the other nullable figures are null without a sample in the five minutes before the collection; uptime and restarts need none."`
	MemPct       *float64         `json:"mem_pct" jsonschema:"Memory in use, in percent of the plan's limit."`
	Restarts24h  float64          `json:"restarts_24h" jsonschema:"How often the container was started again in the last 24 hours."`
	PVCPct       *float64         `json:"pvc_pct" jsonschema:"Share of the volume in use, in percent."`
	UptimePct24h *float64         `json:"uptime_pct_24h" jsonschema:"Time that the agent served, in percent of the time that it should have in the last 24 hours. It should serve from when it is ready, or in status error, until it is paused or stopped, also while it is started again after an error. The first two minutes in which a request replaces its pod do not count. Null before the first collection, and if it was not meant to serve."`
	LatencyP95MS *float64         `json:"latency_p95_ms" jsonschema:"The last known 95th percentile of request latency, in milliseconds. Null until a request on the agent's hostname is measured."`
	CPUCores     *float64         `json:"cpu_cores" jsonschema:"CPU in use, in cores."`
	MemoryBytes  *float64         `json:"memory_bytes" jsonschema:"Memory in use, in bytes."`
	Series       Curves           `json:"series" jsonschema:"The figures over the requested window."`
	Awake        []agent.AwakeDay `json:"awake" jsonschema:"How long the agent had or wanted a pod, by UTC day, the oldest first and the present day last: from its creation, start or wake until it fell asleep, was paused or stopped. At most 35 days; those before the service began to count are left out. Empty unless it is asked for."`
	CollectedAt  *time.Time       `json:"collected_at" jsonschema:"When the figures were collected; null before the first collection."`
	Stale        bool             `json:"stale" jsonschema:"True if a newer collection is overdue."`

	agentID string
}

// Show renders the snapshot as of now. If the snapshot is too old, the figures about the present are null; those about
// the past stay.
func (s Snapshot) Show(w Window, now time.Time) View {
	f, age := s.Figures, now.Sub(s.CollectedAt)
	v := View{
		Restarts24h: s.restarts(now), UptimePct24h: s.uptimePct(now),
		LatencyP95MS: f.LatencyMillis, Awake: []agent.AwakeDay{}, Stale: age >= StaleAfter,
		Series: Curves{
			CPU: s.CPU.pointsSince(now, w.Duration()), Memory: s.Memory.pointsSince(now, w.Duration()),
			Requests: s.Requests.pointsSince(now, w.Duration()), Errors: s.Errors.pointsSince(now, w.Duration()),
		},
		agentID: s.AgentID,
	}
	if !s.CollectedAt.IsZero() {
		at := s.CollectedAt.UTC()
		v.CollectedAt = &at
	}
	if age < ForgetAfter {
		v.CPUPct, v.MemPct, v.PVCPct = f.CPUPct, f.MemPct, f.PVCPct
		v.CPUCores, v.MemoryBytes = f.CPUCores, f.MemoryBytes
	}
	return v
}

// Example implements function.Exampler.
func (View) Example() any {
	now := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	f := func(v float64) *float64 { return &v }
	s := New("6f1c1c7e-5a52-4f0e-8a43-0d4f3c1c2b7a", "org_1")
	s.CollectedAt = now
	s.Figures = Figures{
		CPUPct: f(12.5), MemPct: f(37.5), PVCPct: f(8), CPUCores: f(0.125), MemoryBytes: f(768 << 20),
		LatencyMillis: f(84),
	}
	s.Up.Set(now, coarseStep.Seconds())
	s.Due.Set(now, coarseStep.Seconds())
	for _, sample := range []struct {
		series *Series
		value  float64
	}{{&s.CPU, 0.125}, {&s.Memory, 768 << 20}, {&s.Requests, 0.5}, {&s.Errors, 0}} {
		sample.series.merge(Minutes{now.Unix(): sample.value})
	}
	v := s.Show(Window24h, now)
	v.Awake = []agent.AwakeDay{{Date: "2026-03-01", Seconds: 21_600}, {Date: "2026-03-02", Seconds: 1800}}
	return v
}
