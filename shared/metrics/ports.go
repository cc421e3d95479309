package metrics

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
)

// Metric is one thing that is measured.
type Metric string

// The metrics. What they are of, and how the many series of one agent become one, is the source's to know.
const (
	CPU      Metric = "cpu"      // cores in use, the mean of a minute
	Memory   Metric = "memory"   // bytes in use that can't be given back, the mean of a minute
	Uptime   Metric = "uptime"   // seconds that the container has been up, at the end of a minute
	Volume   Metric = "volume"   // share of the volume in use, 0 to 1
	Requests Metric = "requests" // requests a second, the mean of a minute; by host
	Errors   Metric = "errors"   // those that were answered with 5xx; by host
	Latency  Metric = "latency"  // 95th percentile of five minutes, in milliseconds; by host
	Restarts Metric = "restarts" // restarts of the container in the last day, in one sample
)

// Metrics lists them all. Each costs a call a cell, and a series an agent that has any.
func Metrics() []Metric {
	return []Metric{CPU, Memory, Uptime, Volume, Requests, Errors, Latency, Restarts}
}

// byHost reports whether samples are of requests to a host.
func (m Metric) byHost() bool { return m == Requests || m == Errors || m == Latency }

// Sample is one value of one agent.
type Sample struct {
	AgentID string
	// Host is the host of the requests that were measured; empty where the metric is not of requests.
	Host string
	// At is the end of the time that the value is about.
	At    time.Time
	Value float64
}

// Query asks for a metric of the agents of a cell.
type Query struct {
	Cell   string
	Metric Metric
	Span   Span
	// Agents narrows to the agents with these ids; nil asks for all, at no more calls than for one.
	Agents []string
}

// Usage is what reading cost.
type Usage struct {
	// Calls counts requests, a page each; Series the time series in the answers, which are what is paid for; Points
	// their points.
	Calls, Series, Points int
}

// Plus adds two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Calls + v.Calls, u.Series + v.Series, u.Points + v.Points}
}

// Source reads what was measured.
type Source interface {
	// Read hands every sample that a query finds to visit, in no particular order, also those of agents that nobody
	// knows. A metric that was never measured has no samples. Errors: Unavailable, after which what was visited may be
	// a part.
	Read(ctx context.Context, q Query, visit func(Sample)) (Usage, error)
}

// Store is what routes do with snapshots, in the organization of the caller in ctx.
type Store interface {
	// Get reads the snapshot of an agent. Errors: NotFound when there is none, or it is another organization's;
	// Unavailable.
	Get(ctx context.Context, agentID string) (Snapshot, error)
	// MarkViewed records that somebody looked at a snapshot, at most once in LookInterval, and neither delays nor
	// fails: nobody waits for it.
	MarkViewed(ctx context.Context, s Snapshot)
}

// WorkerStore is what the collector does with snapshots, across organizations.
type WorkerStore interface {
	// Load reads the snapshots of agents, by id. Those that do not exist are left out. Errors: Unavailable.
	Load(ctx context.Context, agentIDs []string) (map[string]Snapshot, error)
	// ListViewedSince lists the snapshots that were looked at since a time, at most limit. Errors: Unavailable.
	ListViewedSince(ctx context.Context, since time.Time, limit int) ([]Snapshot, error)
	// Save writes a snapshot that was read, or one of New, which is written only while the agent's record is of the
	// given version: a snapshot never outlives its agent. Errors: ErrChanged, NotFound once the agent is gone,
	// Unavailable.
	Save(ctx context.Context, s Snapshot, agentVersion string) error
	// Progress tells how far the collection of all agents has come, by cell. Errors: Unavailable.
	Progress(ctx context.Context) (map[string]Progress, error)
	// SetProgress records that of some cells; the others stay. Errors: Unavailable.
	SetProgress(ctx context.Context, cells map[string]Progress) error
}

// Progress is how far the collection of all agents of a cell has come.
type Progress struct {
	// Until is the time up to which everything has been read; zero before anything was.
	Until time.Time
	// Next is when there is more to do.
	Next time.Time
}

// Agents is where the collector finds the agents; it is part of agent.Records.
type Agents interface {
	Load(ctx context.Context, id string) (agent.Agent, error)
	ListByStatus(ctx context.Context, status agent.Status, after string, limit int) ([]agent.Agent, error)
}

// ErrChanged says that a snapshot, or the record of its agent, was written since it was read: read it again.
const ErrChanged = changed("the snapshot was written since it was read")

type changed string

// Error implements error.
func (e changed) Error() string { return string(e) }
