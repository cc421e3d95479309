// Package metrics knows what is measured of agents: a snapshot with its figures and series, how both are computed from
// points, when a snapshot is stale, and how snapshots are collected at a cost that does not grow with how often they
// are read. It does not know where points come from, nor how snapshots are kept.
package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// How often, and how far back.
const (
	// Cycle is how often the snapshots of all agents are collected. Those of agents that somebody looks at are with
	// every tick, which is a minute.
	Cycle = 5 * time.Minute
	// WatchPeriod is how long after a look an agent counts as looked at.
	WatchPeriod = 15 * time.Minute
	// LookInterval is how seldom a look is recorded.
	LookInterval = 5 * time.Minute
	// MaxSampleAge is how old the newest sample of a figure may be when it is collected. Without one the figure is null.
	MaxSampleAge = 5 * time.Minute
	// StaleAfter is the age from which a snapshot is stale: a whole cycle was missed.
	StaleAfter = Cycle + 2*time.Minute
	// ForgetAfter is the age from which the figures of a snapshot say nothing about the present any more: they become
	// null.
	ForgetAfter = 15 * time.Minute
	// Day is how far back anything goes.
	Day = 24 * time.Hour
	// MaxSampleDelay is how late a sample may become visible. What has no sample by then has none.
	MaxSampleDelay = 4 * time.Minute
)

// Snapshot is what is kept of one agent: the figures as they were when it was collected, and the points of the last
// day. It is bounded: a newer point takes the place of the oldest one.
type Snapshot struct {
	AgentID        string
	OrganizationID string
	// LookedAt is when somebody last looked, give or take LookInterval; zero if nobody did.
	LookedAt time.Time
	// CollectedAt is when the points were last read; zero if they never were.
	CollectedAt time.Time
	Figures     Figures
	// CPU is in cores, Memory in bytes, Requests and Errors are per second.
	CPU, Memory, Requests, Errors Series
	// Up is for how many seconds of each five minutes the agent's container ran, and Due for how many it should have.
	Up, Due Ring
	// Version is the store's revision, set when the snapshot is read.
	Version string
}

// New makes the snapshot of an agent of which nothing was collected.
func New(agentID, organizationID string) Snapshot {
	return Snapshot{
		AgentID: agentID, OrganizationID: organizationID,
		CPU: newSeries(), Memory: newSeries(), Requests: newSeries(), Errors: newSeries(),
		Up: NewRing(coarseStep, slotsOfDay), Due: NewRing(coarseStep, slotsOfDay),
	}
}

// Figures are the current values. Nil is "not measured", which is not zero.
type Figures struct {
	CPUPct, MemPct, PVCPct, UptimePct *float64
	CPUCores, MemoryBytes             *float64
	// LatencyMillis is the last known 95th percentile; nil until a request on the agent's own hostname was measured.
	LatencyMillis *float64
	Restarts      float64
}

// Document names the snapshot of the agent with an id as it stands in a client's path. An id that is none names no
// document.
func Document(agentID string) document.Ref {
	d := agent.Document(agentID)
	if d.ID == "" {
		return document.Ref{}
	}
	return document.Ref{Collection: "metrics", ID: d.ID}
}

// NotFound is the error for an agent without a snapshot, which may be no agent at all, or another organization's.
func NotFound() *fault.Error { return agent.NotFound() }

// Subject is an agent as far as measuring it goes.
type Subject struct {
	AgentID        string
	OrganizationID string
	Cell           string
	// Hostname is the one whose requests count.
	Hostname string
	// Limits is what the percentages are of; nil for an agent whose plan exists no more, which has none.
	Limits *plan.Plan
	// ReadySince is when the agent last became ready: from then on it should be up. Zero when it is not known to.
	ReadySince time.Time
	// Broken is true for an agent in error, which is down without anybody being surprised.
	Broken bool
	// Version is the agent's record's.
	Version string
}

// SubjectOf makes the subject of an agent. It is false for one that is not measured: only what should run is, and what
// is broken only for as long as that has a part in the figures of a day.
func SubjectOf(a agent.Agent, d agent.Addresses, now time.Time) (Subject, bool) {
	if a.Status != agent.Running && (a.Status != agent.Error || now.Sub(a.UpdatedAt) > Day) {
		return Subject{}, false
	}
	s := Subject{
		AgentID: a.ID, OrganizationID: a.OrganizationID, Cell: a.Cell, Hostname: a.Hostname(d), Version: a.Version,
		Broken: a.Status == agent.Error,
	}
	if size, err := plan.Get(a.Plan); err == nil {
		s.Limits = &size
	}
	for _, stage := range a.Stages {
		if stage.Name == agent.StageReady && stage.Status == agent.StageSucceeded {
			s.ReadySince = stage.FinishedAt
		}
	}
	return s, true
}
