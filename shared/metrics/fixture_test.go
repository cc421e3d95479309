package metrics_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/metrics/metricstest"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/testtier"
)

// fakeSource is a metrics.Source in which every known agent uses half a core in every minute that it is up.
type fakeSource struct {
	mu      sync.Mutex
	agents  []string
	down    map[string]bool      // agents without samples
	started map[string]time.Time // agents have no samples before this time
	err     error
	queries []metrics.Query
}

// Read implements metrics.Source.
func (s *fakeSource) Read(_ context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, q)
	u := metrics.Usage{Calls: 1}
	if s.err != nil {
		return u, s.err
	}
	for _, id := range s.agents {
		if s.down[id] || q.Agents != nil && !slices.Contains(q.Agents, id) || q.Metric != metrics.CPU {
			continue
		}
		u.Series++
		for at := q.Span.From.Add(time.Minute); !at.After(q.Span.To); at = at.Add(time.Minute) {
			if at.After(s.started[id]) {
				visit(metrics.Sample{AgentID: id, At: at, Value: 0.5})
			}
		}
	}
	return u, nil
}

// takeQueries returns the queries since its last call.
func (s *fakeSource) takeQueries() []metrics.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queries
	s.queries = nil
	return q
}

// collectorFixture is a collector with a fake source, stores in memory, and a clock that the test sets.
type collectorFixture struct {
	*testing.T
	*metricstest.Memory
	source    *fakeSource
	collector *metrics.Collector
	now       time.Time
}

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	m.Run()
}

func newCollectorFixture(t *testing.T) *collectorFixture {
	f := &collectorFixture{
		T: t, Memory: &metricstest.Memory{}, source: &fakeSource{}, now: metricstest.Now().Add(7 * time.Second),
	}
	f.Now = func() time.Time { return f.now }
	f.collector = &metrics.Collector{Agents: f.Agents(), Source: f.source, Records: f.Memory, Now: f.Now}
	return f
}

// putAgent stores an agent that has been in a status for an hour.
func (f *collectorFixture) putAgent(status agent.Status) agent.Agent {
	a := agent.Agent{
		OrganizationID: "o", Cell: "one", Plan: plan.Starter, Status: status,
		UpdatedAt: f.now.Add(-time.Hour), Stages: agent.NewStages(),
	}
	a.EndStage(agent.StageReady, agent.StageSucceeded, f.now.Add(-time.Hour))
	a = f.Put(a)
	f.source.agents = append(f.source.agents, a.ID)
	return a
}

func (f *collectorFixture) collect() {
	f.Helper()
	if err := f.collector.Collect(f.Context()); err != nil {
		f.Fatalf("collect: %v", err)
	}
}

// advance advances the clock minute by minute, and collects at each.
func (f *collectorFixture) advance(minutes int) {
	f.Helper()
	for range minutes {
		f.now = f.now.Add(time.Minute)
		f.collect()
	}
}

func (f *collectorFixture) show(id string) metrics.View {
	f.Helper()
	s, err := f.Get(call.As(f.Context(), identity.Caller{OrganizationID: "o"}), id)
	if err != nil {
		f.Fatalf("get the snapshot of agent %s: %v", id, err)
	}
	return s.Show(metrics.Window1h, f.now)
}

func (f *collectorFixture) view(id string) {
	found, _ := f.Load(f.Context(), []string{id})
	f.MarkViewed(f.Context(), found[id])
}
