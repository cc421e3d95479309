// Package metrics collects the metrics of agents into snapshots, computes their figures and series, and renders them
// for clients. The cost of collecting does not grow with the number of requests that read a snapshot. It does not talk
// to a metrics source (infra/monitoring does) and does not store snapshots.
package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Intervals and ages.
const (
	// Cycle is how often the snapshots of all agents are collected. Recently viewed agents are collected at every tick,
	// which is a minute.
	Cycle = 5 * time.Minute
	// WatchPeriod is how long an agent counts as recently viewed.
	WatchPeriod = 15 * time.Minute
	// ViewInterval is the shortest time between two recorded views of an agent.
	ViewInterval = 5 * time.Minute
	// MaxSampleAge is the maximum age of the sample that a figure is computed from. Without such a sample the figure is
	// null.
	MaxSampleAge = 5 * time.Minute
	// StaleAfter is the age at which a snapshot is stale: a whole cycle was missed.
	StaleAfter = Cycle + 2*time.Minute
	// ForgetAfter is the age at which the current figures of a snapshot become null.
	ForgetAfter = 15 * time.Minute
	// Day is the longest time span that is collected or shown.
	Day = 24 * time.Hour
	// MaxSampleDelay is how late a sample may become visible. A minute without a sample by then has none.
	MaxSampleDelay = 4 * time.Minute
)

// Snapshot holds the metrics of one agent: the figures at the time of collection, and the points of the last day. Its
// size is bounded: a new point replaces the oldest one.
type Snapshot struct {
	AgentID        string
	OrganizationID string
	// ViewedAt is when a client last viewed the snapshot, accurate to LookInterval; zero for never.
	ViewedAt time.Time
	// CollectedAt is when the points were last read; zero for never.
	CollectedAt time.Time
	Figures     Figures
	// CPU is in cores, Memory in bytes, Requests and Errors are per second.
	CPU, Memory, Requests, Errors Series
	// Up holds the seconds of each five minutes in which the agent served, and Due the seconds in which it should have.
	Up, Due Ring
	// Restarted counts the restarts of each five minutes, and RestartsSeen all that were counted.
	Restarted    Ring
	RestartsSeen int64
	Counted      Counted
	// Version is the store's revision, set when the snapshot is read.
	Version string
	// Rest is what other releases stored in the snapshot, set when it is read.
	Rest *document.Rest
}

// New makes an empty snapshot of an agent.
func New(agentID, organizationID string) Snapshot {
	return Snapshot{
		AgentID: agentID, OrganizationID: organizationID,
		CPU: newSeries(), Memory: newSeries(), Requests: newSeries(), Errors: newSeries(),
		Up: NewRing(coarseStep, slotsOfDay), Due: NewRing(coarseStep, slotsOfDay),
		Restarted: NewRing(coarseStep, slotsOfDay),
	}
}

// Figures are the current values. Nil means not measured, which differs from zero.
type Figures struct {
	CPUPct, MemPct, PVCPct *float64
	CPUCores, MemoryBytes  *float64
	// LatencyMillis is the last known 95th percentile; nil until a request to the agent's own hostname was measured.
	LatencyMillis *float64
	// UptimePct and Restarts are those of the day before the collection. Former releases show them. This one computes
	// those of the day before a request: see Show.
	UptimePct *float64
	Restarts  float64
}

// Document returns the reference to the snapshot of an agent. agentID may be any text from a request path. If it is not
// a valid id, the reference is empty.
func Document(agentID string) document.Ref {
	d := agent.Document(agentID)
	if d.ID == "" {
		return document.Ref{}
	}
	return document.Ref{Collection: "metrics", ID: d.ID}
}

// NotFound is the error for an agent without a snapshot. The agent may not exist, or belong to another organization.
func NotFound() *fault.Error { return agent.NotFound() }

// Subject holds the facts about an agent that its metrics depend on.
type Subject struct {
	AgentID        string
	OrganizationID string
	Cell           string
	// Hostname is the agent's own hostname. Only requests to it count.
	Hostname string
	// Limits is the plan that percentages refer to; nil if the plan no longer exists.
	Limits *plan.Plan
	// Serving is what the record knows of when the agent served, and Restarts how often its container was restarted.
	Serving  []agent.ServingChange
	Restarts int64
	// Version is the version of the agent's record.
	Version string
}

// measured reports whether an agent is collected in each cycle: it runs, or entered status error within the last Day,
// because that day's figures cover it.
func measured(a agent.Agent, now time.Time) bool {
	return a.Status == agent.Running || a.Status == agent.Error && now.Sub(a.UpdatedAt) <= Day
}

// stoppedSince reports whether an agent was paused or stopped after a time.
func stoppedSince(a agent.Agent, t time.Time) bool {
	history := a.ServingHistory()
	return len(history) > 0 && agent.LastServing(history) == agent.Idle && history[len(history)-1].Since.After(t)
}

// lacks reports whether an agent may have served, or should have, since the snapshot was collected. After an agent was
// paused or stopped, that is so until a cycle later: the record of a change may be read late.
func (s Snapshot) lacks(a agent.Agent) bool {
	history := a.ServingHistory()
	if a.Status == agent.Running || agent.LastServing(history) != agent.Idle {
		return true
	}
	return len(history) > 0 && s.CollectedAt.Before(history[len(history)-1].Since.Add(Cycle))
}

// subjectOf makes the subject of an agent.
func subjectOf(a agent.Agent, d agent.Addresses) Subject {
	s := Subject{
		AgentID: a.ID, OrganizationID: a.OrganizationID, Cell: a.Cell, Hostname: a.Hostname(d), Version: a.Version,
		Serving: a.ServingHistory(), Restarts: a.PodRestarts.Total,
	}
	if size, err := plan.Get(a.Plan); err == nil {
		s.Limits = &size
	}
	return s
}
