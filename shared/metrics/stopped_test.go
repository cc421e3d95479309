package metrics_test

import (
	"context"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// served is a metrics.Source of one agent that served a request a second between two times, and failed each of them.
type served struct {
	a           agent.Agent
	from, until time.Time
}

// Read implements metrics.Source.
func (s served) Read(_ context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	if q.Metric != metrics.CPU && q.Metric != metrics.Requests && q.Metric != metrics.Errors {
		return metrics.Usage{Calls: 1}, nil
	}
	for at := q.Span.From.Add(time.Minute); !at.After(q.Span.To); at = at.Add(time.Minute) {
		if at.After(s.from) && !at.After(s.until) {
			visit(metrics.Sample{AgentID: s.a.ID, Host: s.a.Hostname(agent.Addresses{}), At: at, Value: 1})
		}
	}
	return metrics.Usage{Calls: 1, Series: 1}, nil
}

// TestCollect_CountsTheLastMinutesOfAnAgentThatStops has agents that run for some minutes after a cycle, next to one
// that goes on. Collections list agents that run, so one that runs for less than a cycle may be in no list.
func TestCollect_CountsTheLastMinutesOfAnAgentThatStops(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		begins, ends int
		status       agent.Status
	}{
		"paused within a cycle":         {begins: 2, ends: 13, status: agent.Paused},
		"stopped within a cycle":        {begins: 2, ends: 12, status: agent.Stopped},
		"paused with the cycle":         {begins: 2, ends: 15, status: agent.Paused},
		"runs for less than a cycle":    {begins: 6, ends: 9, status: agent.Paused},
		"paused a minute after a cycle": {begins: 2, ends: 16, status: agent.Paused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newCollectorFixture(t)
			other := f.putAgent(agent.Running)
			a := f.putAgent(agent.Paused)
			at := func(minutes int) time.Time {
				return f.now.Truncate(time.Minute).Add(time.Duration(minutes) * time.Minute)
			}
			f.collector.Source = served{a, at(row.begins), at(row.ends)}
			begins, ends := at(row.begins), at(row.ends)
			f.collect()
			for range 40 {
				switch f.now = f.now.Add(time.Minute); f.now.Truncate(time.Minute) {
				case begins:
					a.Status = agent.Running
					a.ServingChanges = []agent.ServingChange{{Since: begins, Serving: agent.Up}}
					f.Put(a)
				case ends:
					a.Status = row.status
					a.ServingChanges = append(a.ServingChanges, agent.ServingChange{Since: ends, Serving: agent.Idle})
					f.Put(a)
				}
				f.collect()
			}
			found, err := f.Load(t.Context(), []string{a.ID, other.ID})
			if err != nil {
				t.Fatal(err)
			}
			want := float64(60 * (row.ends - row.begins))
			if c := found[a.ID].Counted; c.Requests != want || c.Errors != want {
				t.Errorf("%v requests and %v errors count, want %v each", c.Requests, c.Errors, want)
			}
			f.Counts()
			f.advance(10)
			if _, _, agents := f.Counts(); agents != 2 {
				t.Errorf("%d agents read in two more cycles, want the other one twice", agents)
			}
		})
	}
}
