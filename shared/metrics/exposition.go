package metrics

import (
	"bytes"
	"fmt"
	"strconv"

	"agents.example/controlplane/shared/function"
)

// gauge is one figure as Prometheus defines it: in base units, with ratios from 0 to 1.
type gauge struct {
	name, unit, help string
	value            *float64
}

// gauges lists the current figures. encodeGauges leaves out those without a value, because no value is not zero.
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
		{"agent_restarts_24h", "", "Restarts of the container in the last 24 hours.", &v.Restarts24h},
		{
			"agent_request_duration_p95_seconds", "seconds", "The last known 95th percentile of request latency.",
			scaled(v.LatencyP95MS, 0.001),
		},
		{
			"agent_metrics_collected_timestamp_seconds", "seconds", "When the figures were collected, in Unix time.",
			collected,
		},
		{"agent_metrics_stale", "", "1 if a newer collection is overdue, else 0.", &stale},
	}
}

// Formats implements function.Negotiable: the current figures in the formats that monitoring systems scrape.
func (v View) Formats() []function.Format {
	return []function.Format{
		{
			ContentType: "application/openmetrics-text; version=1.0.0; charset=utf-8",
			Encode:      func() []byte { return v.encodeGauges(true) },
		},
		{
			ContentType: "text/plain; version=0.0.4; charset=utf-8",
			Encode:      func() []byte { return v.encodeGauges(false) },
		},
	}
}

// encodeGauges encodes the figures in the text format of Prometheus, or of OpenMetrics, which adds units and an end
// mark.
func (v View) encodeGauges(openMetrics bool) []byte {
	var b bytes.Buffer
	for _, g := range v.gauges() {
		if g.value == nil {
			continue
		}
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n", g.name, g.help, g.name)
		if openMetrics && g.unit != "" {
			fmt.Fprintf(&b, "# UNIT %s %s\n", g.name, g.unit)
		}
		fmt.Fprintf(&b, "%s{agent_id=%q} %s\n", g.name, v.agentID, strconv.FormatFloat(*g.value, 'g', -1, 64))
	}
	if openMetrics {
		b.WriteString("# EOF\n")
	}
	return b.Bytes()
}
