package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// OrganizationView is the current figures of all agents of an organization as a client sees them.
type OrganizationView struct {
	Agents []AgentFigures `json:"agents" jsonschema:"All agents but those that are being deleted, in the order of their ids."`
}

// AgentFigures is what is known of an agent at present. Agents that neither run nor are in error have no figures but
// the two totals, which stay.
type AgentFigures struct {
	AgentID      string       `json:"agent_id" jsonschema:"The agent's id."`
	Name         string       `json:"name" jsonschema:"Display name."`
	Plan         plan.ID      `json:"resource_plan"`
	Region       string       `json:"region" jsonschema:"Data-plane region."`
	Status       agent.Status `json:"status"`
	Image        string       `json:"image" jsonschema:"The image's id in the catalog, or custom; empty for an agent that was made before there were images to choose from."`
	Version      string       `json:"image_version" jsonschema:"The version of the image."`
	CPUPct       *float64     `json:"cpu_pct" jsonschema:"CPU in use, in percent of the plan's limit."`
	CPUCores     *float64     `json:"cpu_cores" jsonschema:"CPU in use, in cores."`
	MemPct       *float64     `json:"mem_pct" jsonschema:"Memory in use, in percent of the plan's limit."`
	MemoryBytes  *float64     `json:"memory_bytes" jsonschema:"Memory in use, in bytes."`
	PVCPct       *float64     `json:"pvc_pct" jsonschema:"Share of the volume in use, in percent."`
	UptimePct24h *float64     `json:"uptime_pct_24h" jsonschema:"Time that the agent served, in percent of the time that it should have in the 24 hours before the collection."`
	Restarts24h  *float64     `json:"restarts_24h" jsonschema:"How often the container was started again in the 24 hours before the collection."`
	LatencyP95MS *float64     `json:"latency_p95_ms" jsonschema:"The last known 95th percentile of request latency, in milliseconds."`
	Requests     float64      `json:"requests_total" jsonschema:"How many requests the agent's hostname got since the service counts them. The number never falls. A minute is counted some minutes after it."`
	Errors       float64      `json:"request_errors_total" jsonschema:"How many of them were answered with a 5xx status."`
	CollectedAt  *time.Time   `json:"collected_at" jsonschema:"When the figures were collected; null before the first collection, and for an agent that neither runs nor is in error."`
	Stale        bool         `json:"stale" jsonschema:"True if a newer collection is overdue."`
}

// ShowAll renders the current figures of an organization's agents as of now.
func ShowAll(all []Current, now time.Time) OrganizationView {
	v := OrganizationView{Agents: make([]AgentFigures, len(all))}
	for i, c := range all {
		v.Agents[i] = c.show(now)
	}
	return v
}

func (c Current) show(now time.Time) AgentFigures {
	a := c.Agent
	f := AgentFigures{
		AgentID: a.ID, Name: a.Name, Plan: a.Plan, Region: a.Region, Status: a.Status,
		Image: a.Image.ID, Version: a.Image.Version,
		Requests: c.Snapshot.Counted.Requests, Errors: c.Snapshot.Counted.Errors,
	}
	if a.Status != agent.Running && a.Status != agent.Error {
		return f
	}
	s := c.Snapshot.Show("", now) // its series are empty
	f.CPUPct, f.CPUCores, f.MemPct, f.MemoryBytes, f.PVCPct = s.CPUPct, s.CPUCores, s.MemPct, s.MemoryBytes, s.PVCPct
	f.LatencyP95MS, f.CollectedAt, f.Stale = s.LatencyP95MS, s.CollectedAt, s.Stale && s.CollectedAt != nil
	if s.CollectedAt != nil && now.Sub(*s.CollectedAt) < ForgetAfter {
		f.UptimePct24h, f.Restarts24h = c.Snapshot.Figures.UptimePct, &c.Snapshot.Figures.Restarts
	}
	return f
}

// gauges lists the figures as those of one agent are.
func (f AgentFigures) gauges() []gauge {
	v := View{
		CPUPct: f.CPUPct, CPUCores: f.CPUCores, MemPct: f.MemPct, MemoryBytes: f.MemoryBytes, PVCPct: f.PVCPct,
		UptimePct24h: f.UptimePct24h, LatencyP95MS: f.LatencyP95MS, CollectedAt: f.CollectedAt, Stale: f.Stale,
	}
	found := v.gauges()
	for i := range found {
		switch {
		case found[i].name == restartsGauge:
			found[i].value = f.Restarts24h
		case found[i].name == staleGauge && f.CollectedAt == nil:
			found[i].value = nil
		}
	}
	return found
}

// Formats implements function.Negotiable: the current figures in the formats that monitoring systems scrape. Every
// series has the agent's id, and one, agent_info, has what else is known of the agent, so that a rename or another
// version ends only that series.
func (v OrganizationView) Formats() []function.Format {
	return formats(func(e *encoder) {
		e.family(family{name: "agent", kind: kindInfo, help: "What is known of the agent."})
		for _, f := range v.Agents {
			e.sample([]label{
				{"agent_id", f.AgentID},
				{"name", f.Name},
				{"plan", string(f.Plan)},
				{"region", f.Region},
				{"status", string(f.Status)},
				{"image", f.Image},
				{"version", f.Version},
			}, new(1.0))
		}
		for _, counter := range []struct {
			family
			value func(AgentFigures) float64
		}{
			{
				family{name: "agent_requests", kind: kindCounter, help: "Requests to the agent's hostname."},
				func(f AgentFigures) float64 { return f.Requests },
			},
			{
				family{name: "agent_request_errors", kind: kindCounter, help: "Requests answered with a 5xx status."},
				func(f AgentFigures) float64 { return f.Errors },
			},
		} {
			e.family(counter.family)
			for _, f := range v.Agents {
				e.sample([]label{{"agent_id", f.AgentID}}, new(counter.value(f)))
			}
		}
		v.writeGauges(e)
	})
}

func (v OrganizationView) writeGauges(e *encoder) {
	all := make([][]gauge, len(v.Agents))
	for i, f := range v.Agents {
		all[i] = f.gauges()
	}
	for i, g := range (AgentFigures{}).gauges() {
		e.family(family{name: g.name, unit: g.unit, help: g.help, kind: kindGauge})
		for n, gauges := range all {
			e.sample([]label{{"agent_id", v.Agents[n].AgentID}}, gauges[i].value)
		}
	}
}

// Example implements function.Exampler.
func (OrganizationView) Example() any {
	shown, _ := View{}.Example().(View)
	return OrganizationView{Agents: []AgentFigures{{
		AgentID: shown.agentID, Name: "Support Assistant", Plan: plan.Startup, Region: agent.DefaultRegion,
		Status: agent.Running, Image: "assistant", Version: "2.1.0", CPUPct: shown.CPUPct, CPUCores: shown.CPUCores,
		MemPct: shown.MemPct, MemoryBytes: shown.MemoryBytes, PVCPct: shown.PVCPct, UptimePct24h: shown.UptimePct24h,
		Restarts24h: new(0.0), LatencyP95MS: shown.LatencyP95MS, Requests: 43_200, Errors: 12,
		CollectedAt: shown.CollectedAt,
	}}}
}
