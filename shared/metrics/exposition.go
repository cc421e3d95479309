package metrics

import "agents.example/controlplane/shared/function"

// gauge is one figure as Prometheus defines it: in base units, with ratios from 0 to 1.
type gauge struct {
	name, unit, help string
	value            *float64
}

// The gauges that always have a value for one agent.
const (
	restartsGauge = "agent_restarts_24h"
	staleGauge    = "agent_metrics_stale"
)

// gauges lists the current figures. Those without a value are left out of answers, because no value is not zero.
func (v View) gauges() []gauge {
	stale, collected := 0.0, (*float64)(nil)
	if v.Stale {
		stale = 1
	}
	if v.CollectedAt != nil {
		seconds := float64(v.CollectedAt.Unix())
		collected = &seconds
	}
	return []gauge{
		{"agent_cpu_usage_cores", "cores", "CPU in use.", v.CPUCores},
		{"agent_cpu_usage_ratio", "ratio", "CPU in use, as a ratio of the plan's limit.", scaled(v.CPUPct, 0.01)},
		{"agent_memory_usage_bytes", "bytes", "Memory in use.", v.MemoryBytes},
		{"agent_memory_usage_ratio", "ratio", "Memory in use, as a ratio of the plan's limit.", scaled(v.MemPct, 0.01)},
		{
			"agent_volume_usage_ratio", "ratio", "Volume space in use, as a ratio of the volume's size.",
			scaled(v.PVCPct, 0.01),
		},
		{
			"agent_uptime_24h_ratio", "ratio",
			"Time that the agent was up, as a ratio of the time that it should have been up in the last 24 hours.",
			scaled(v.UptimePct24h, 0.01),
		},
		{restartsGauge, "", "Restarts of the container in the last 24 hours.", &v.Restarts24h},
		{
			"agent_request_duration_p95_seconds", "seconds", "The last known 95th percentile of request latency.",
			scaled(v.LatencyP95MS, 0.001),
		},
		{
			"agent_metrics_collected_timestamp_seconds", "seconds", "When the figures were collected, in Unix time.",
			collected,
		},
		{staleGauge, "", "1 if a newer collection is overdue, else 0.", &stale},
	}
}

// Formats implements function.Negotiable: the current figures in the formats that monitoring systems scrape.
func (v View) Formats() []function.Format {
	return formats(func(e *encoder) {
		for _, g := range v.gauges() {
			e.family(family{name: g.name, unit: g.unit, help: g.help, kind: kindGauge})
			e.sample([]label{{"agent_id", v.agentID}}, g.value)
		}
	})
}
