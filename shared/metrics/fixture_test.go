package metrics_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/metrics/metricstest"
	"agents.example/controlplane/shared/plan"
)

// signal is a source of which every agent that it knows uses half a core in every minute that it is up.
type signal struct {
	mu      sync.Mutex
	down    map[string]bool // agents without samples
	agents  []string
	since   map[string]time.Time // when agents were started, before which they have no samples
	fail    error
	queries []metrics.Query
}

// Read implements metrics.Source.
func (s *signal) Read(_ context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries = append(s.queries, q)
	u := metrics.Usage{Calls: 1}
	if s.fail != nil {
		return u, s.fail
	}
	for _, id := range s.agents {
		if s.down[id] || q.Agents != nil && !slices.Contains(q.Agents, id) || q.Metric != metrics.CPU &&
			q.Metric != metrics.Uptime {
			continue
		}
		u.Series++
		for at := q.Span.From.Add(time.Minute); !at.After(q.Span.To); at = at.Add(time.Minute) {
			if at.After(s.since[id]) {
				up := at.Sub(s.since[id]).Seconds()
				visit(metrics.Sample{AgentID: id, At: at,
					Value: map[metrics.Metric]float64{metrics.CPU: 0.5, metrics.Uptime: up}[q.Metric]})
			}
		}
	}
	return u, nil
}

// asked answers the queries since the last time.
func (s *signal) asked() []metrics.Query {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queries
	s.queries = nil
	return q
}

// world is a collector at a time that the test sets.
type world struct {
	*testing.T
	*metricstest.Memory
	source    *signal
	collector *metrics.Collector
	now       time.Time
}

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	m.Run()
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, Memory: &metricstest.Memory{}, source: &signal{}, now: metricstest.Now().Add(7 * time.Second)}
	w.Now = func() time.Time { return w.now }
	w.collector = &metrics.Collector{Agents: w.Agents(), Source: w.source, Records: w.Memory, Now: w.Now}
	return w
}

// agent puts an agent that has been in a status for an hour.
func (w *world) agent(status agent.Status) agent.Agent {
	a := agent.Agent{OrganizationID: "o", Cell: "one", Plan: plan.Starter, Status: status,
		UpdatedAt: w.now.Add(-time.Hour), Stages: agent.NewStages()}
	a.EndStage(agent.StageReady, agent.StageSucceeded, w.now.Add(-time.Hour))
	a = w.Put(a)
	w.source.agents = append(w.source.agents, a.ID)
	return a
}

func (w *world) collect() {
	w.Helper()
	if err := w.collector.Collect(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// pass lets time pass, tick by tick, and collects at each.
func (w *world) pass(minutes int) {
	w.Helper()
	for range minutes {
		w.now = w.now.Add(time.Minute)
		w.collect()
	}
}

func (w *world) show(id string) metrics.View {
	w.Helper()
	s, err := w.Get(identity.With(w.Context(), identity.Caller{OrganizationID: "o"}), id)
	if err != nil {
		w.Fatal(err)
	}
	return s.Show(metrics.Window1h, w.now)
}

func (w *world) look(id string) {
	found, _ := w.Load(w.Context(), []string{id})
	w.MarkViewed(w.Context(), found[id])
}
