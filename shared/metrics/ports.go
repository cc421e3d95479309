package metrics

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/page"
)

// Metric is one measured quantity.
type Metric string

// The metrics. The source decides which time series they are read from, and how it combines several series of one
// agent.
const (
	CPU      Metric = "cpu"      // cores in use, the mean of a minute
	Memory   Metric = "memory"   // bytes in use that can't be reclaimed, the mean of a minute
	Volume   Metric = "volume"   // share of the volume in use, 0 to 1
	Requests Metric = "requests" // requests a second, the mean of a minute; by host
	Errors   Metric = "errors"   // requests a second answered with 5xx, the mean of a minute; by host
	Latency  Metric = "latency"  // 95th percentile of five minutes, in milliseconds; by host
)

// Metrics lists all metrics. Each costs one call per cell, memory two, and one series per agent that has samples.
func Metrics() []Metric {
	return []Metric{CPU, Memory, Volume, Requests, Errors, Latency}
}

// byHost reports whether the samples of a metric are of requests to one host.
func (m Metric) byHost() bool { return m == Requests || m == Errors || m == Latency }

// Sample is one value of one agent.
type Sample struct {
	AgentID string
	// Host is the host of the measured requests; empty if the metric does not count requests.
	Host string
	// At is the end of the measured interval.
	At    time.Time
	Value float64
}

// Query asks for a metric of the agents of a cell.
type Query struct {
	Cell   string
	Metric Metric
	Span   Span
	// Agents lists the ids of the agents to read; nil reads all agents. Reading all takes no more calls than reading
	// one.
	Agents []string
}

// Usage is the cost of reading.
type Usage struct {
	// Calls counts requests, one per page; Series the returned time series, which are billed; Points their points.
	Calls, Series, Points int
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Calls + v.Calls, u.Series + v.Series, u.Points + v.Points}
}

// Source reads samples.
type Source interface {
	// Read passes every sample that matches a query to visit, in no particular order. That includes samples of unknown
	// agents. A metric that was never measured has no samples. Errors: Unavailable; the visited samples may then be
	// incomplete.
	Read(ctx context.Context, q Query, visit func(Sample)) (Usage, error)
}

// Store is the port of routes to the snapshots in the organization of the caller in ctx.
type Store interface {
	// Get reads the snapshot of an agent. Errors: NotFound when it does not exist or belongs to another organization;
	// Unavailable.
	Get(ctx context.Context, agentID string) (Snapshot, error)
	// ListCurrent reads what is known at present of all agents of the caller's organization, but those that are being
	// deleted, in the order of their ids. The snapshots have no series, and an agent from before snapshots existed has
	// an empty one. Errors: Unavailable.
	ListCurrent(ctx context.Context) ([]Current, error)
	// MarkViewed records that a client viewed a snapshot, in the background and at most once in LookInterval. It never
	// delays or fails a request.
	MarkViewed(ctx context.Context, s Snapshot)
}

// Current is what is known of an agent at present. Of the record, it has the id, the name, the plan, the region, the
// status and the image.
type Current struct {
	Agent    agent.Agent
	Snapshot Snapshot
}

// WorkerStore is the port of the collector to the snapshots of all organizations.
type WorkerStore interface {
	// Load reads the snapshots of agents, by agent id, and leaves out those that do not exist. Errors: Unavailable.
	Load(ctx context.Context, agentIDs []string) (map[string]Snapshot, error)
	// ListViewedSince lists at most limit snapshots that were viewed since a time. Errors: Unavailable.
	ListViewedSince(ctx context.Context, since time.Time, limit int) ([]Snapshot, error)
	// Save writes a snapshot that was read, or a new one. A new one is written only if the agent's record has the
	// given version, so that no snapshot outlives its agent. Errors: ErrChanged, NotFound once the agent is gone,
	// Unavailable.
	Save(ctx context.Context, s Snapshot, agentVersion string) error
	// Progress returns the progress of collecting all agents, by cell. Errors: Unavailable.
	Progress(ctx context.Context) (map[string]Progress, error)
	// SetProgress records the progress of some cells and leaves that of the others. Errors: Unavailable.
	SetProgress(ctx context.Context, cells map[string]Progress) error
}

// Progress is the progress of collecting all agents of a cell.
type Progress struct {
	// Until is the time up to which all samples have been read; zero before the first collection.
	Until time.Time
	// Next is when the next collection is due.
	Next time.Time
}

// Agents finds agents for the collector. It is a part of agent.WorkerStore.
type Agents interface {
	Load(ctx context.Context, id string) (agent.Agent, error)
	ListByStatus(ctx context.Context, status agent.Status, after string, limit int) (page.Page[agent.Agent], error)
}

// ErrChanged reports that a snapshot, or its agent's record, was written since it was read. Read it again and retry.
const ErrChanged = changed("the snapshot was written since it was read")

type changed string

// Error implements error.
func (e changed) Error() string { return string(e) }
