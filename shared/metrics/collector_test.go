package metrics_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// TestCycle collects all agents that should run, every five minutes, and touches no others.
func TestCycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	running := w.agent(agent.Running)
	others := map[agent.Status]string{}
	for _, status := range []agent.Status{agent.Provisioning, agent.Pending, agent.Paused, agent.Stopped,
		agent.Deleting} {
		others[status] = w.agent(status).ID
	}
	long := w.agent(agent.Error)
	long.UpdatedAt = w.now.Add(-25 * time.Hour)
	w.Put(long)
	w.collect()
	if asked := w.source.asked(); len(asked) != len(metrics.Metrics()) || asked[0].Agents != nil ||
		asked[0].Cell != "one" {
		t.Fatalf("asked %d times: %+v", len(asked), asked)
	}
	v := w.show(running.ID)
	if v.CPUPct == nil || *v.CPUPct != 50 || len(v.Series.CPU) != 59 || v.Stale || v.UptimePct24h == nil ||
		*v.UptimePct24h != 100 {
		t.Errorf("%+v", v)
	}
	if loads, saves, _ := w.Counts(); loads != 1 || saves != 1 {
		t.Errorf("%d snapshots were read and %d written, want one each", loads, saves)
	}
	for status, id := range others {
		if v := w.show(id); v.CollectedAt != nil {
			t.Errorf("an agent that is %s was collected", status)
		}
	}
	w.pass(4)
	if asked := w.source.asked(); len(asked) != 0 {
		t.Errorf("asked %d times between cycles, for nobody", len(asked))
	}
	if _, _, agents := w.Counts(); agents != 0 {
		t.Errorf("%d agents were read between cycles", agents)
	}
	w.pass(1)
	if asked := w.source.asked(); len(asked) != len(metrics.Metrics()) || w.show(running.ID).CollectedAt.Before(w.now) {
		t.Errorf("asked %d times in the next cycle", len(asked))
	}
}

// TestCallsDoNotGrow: the same calls for ten agents and for a thousand, and one document each.
func TestCallsDoNotGrow(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000} {
		w := newWorld(t)
		w.source.since = map[string]time.Time{}
		for range n {
			w.source.since[w.agent(agent.Running).ID] = w.now.Truncate(time.Minute)
		}
		w.pass(10)
		w.source.asked()
		w.Counts()
		w.pass(5)
		asked := w.source.asked()
		if loads, saves, agents := w.Counts(); len(asked) != len(metrics.Metrics()) || loads != n || saves != n ||
			agents != n {
			t.Errorf("%d agents: %d queries, %d snapshots read, %d written, %d agents read", n, len(asked), loads,
				saves, agents)
		}
	}
}

// TestPieces: a day of many agents is read in pieces, at consecutive ticks, from the oldest on, and until then nothing
// passes for news.
func TestPieces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var last agent.Agent
	for range 3 {
		last = w.agent(agent.Running)
	}
	w.collector.Minutes = 3 * 666
	pieces := 0
	for v := w.show(last.ID); v.Stale; v = w.show(last.ID) {
		if pieces++; pieces > 3 {
			t.Fatalf("%+v", v)
		}
		if w.pass(1); pieces < 3 && !w.show(last.ID).Stale {
			t.Errorf("piece %d passes for news", pieces)
		}
		if _, saves, _ := w.Counts(); saves != 3 {
			t.Errorf("piece %d: %d snapshots were written", pieces, saves)
		}
	}
	s, err := w.Load(t.Context(), []string{last.ID})
	if points := s[last.ID].Show(metrics.Window24h, w.now).Series.CPU; err != nil || len(points) != 288 {
		t.Errorf("%d points in %d pieces: %v", len(points), pieces, err)
	}
	// A piece of the past does not replace figures of the present.
	seen := s[last.ID]
	seen.AddReading(metrics.Subject{}, metrics.Reading{},
		metrics.Span{From: w.now.Add(-2 * time.Hour), To: w.now.Add(-time.Hour)}, w.now)
	if v := seen.Show(metrics.Window1h, w.now); v.CPUCores == nil || v.Stale {
		t.Errorf("%+v", v)
	}
}

// TestWatched collects an agent with every tick while somebody looks, and no other.
func TestWatched(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seen, unseen, paused := w.agent(agent.Running), w.agent(agent.Running), w.agent(agent.Paused)
	w.collect()
	before := w.now
	w.look(seen.ID)
	w.look(paused.ID)
	w.source.asked()
	w.Counts()
	w.pass(1)
	asked := w.source.asked()
	if len(asked) != len(metrics.Metrics()) || !slices.Equal(asked[0].Agents, []string{seen.ID}) ||
		w.now.Sub(asked[0].Span.From) > 20*time.Minute {
		t.Fatalf("%+v", asked)
	}
	if _, saves, _ := w.Counts(); saves != 1 || !w.show(seen.ID).CollectedAt.Equal(w.now) ||
		!w.show(unseen.ID).CollectedAt.Equal(before) {
		t.Errorf("%d snapshots were written", saves)
	}
	w.pass(15)
	w.source.asked()
	w.pass(3)
	if asked := w.source.asked(); len(asked) != 0 {
		t.Errorf("asked %d times although nobody looks any more", len(asked))
	}
}

// TestOutage: nothing that the source still has is lost by a collector that could not read, or did not run.
func TestOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.agent(agent.Running)
	began := w.now.Truncate(time.Minute)
	a.EndStage(agent.StageReady, agent.StageSucceeded, began)
	w.Put(a)
	w.source.since = map[string]time.Time{a.ID: began}
	w.collect()
	outage := errors.New("no answer")
	w.source.fail = outage
	for range 30 {
		w.now = w.now.Add(time.Minute)
		if err := w.collector.Collect(t.Context()); err != nil && !errors.Is(err, outage) {
			t.Fatal(err)
		}
	}
	if v := w.show(a.ID); !v.Stale {
		t.Errorf("not stale after half an hour: %+v", v)
	}
	w.source.fail = nil
	w.pass(1)
	if v := w.show(a.ID); v.Stale || len(v.Series.CPU) != 31 || *v.UptimePct24h != 100 {
		t.Errorf("%d points after half an hour of an outage, uptime %v", len(v.Series.CPU), v.UptimePct24h)
	}
	w.now = w.now.Add(20 * time.Minute) // nobody collects
	w.pass(1)
	if v := w.show(a.ID); v.Stale || len(v.Series.CPU) != 52 {
		t.Errorf("%d points", len(v.Series.CPU))
	}
}

// TestSilence: no sample of anybody is no downtime of everybody; it is tried again, from the same time on.
func TestSilence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.agent(agent.Running), w.agent(agent.Running)
	w.collect()
	w.source.down = map[string]bool{a.ID: true, b.ID: true}
	w.pass(30)
	if v := w.show(a.ID); !v.Stale {
		t.Error("a silence passes for news")
	}
	w.source.down = nil
	w.pass(5)
	if v := w.show(a.ID); v.Stale || *v.UptimePct24h != 100 || len(v.Series.CPU) != 59 {
		t.Errorf("after a silence: %d points, uptime %v", len(v.Series.CPU), *v.UptimePct24h)
	}
	// One that is silent alone is down.
	w.source.down = map[string]bool{a.ID: true}
	w.pass(30)
	if v := w.show(a.ID); v.Stale || v.CPUPct != nil || v.UptimePct24h != nil {
		t.Errorf("an agent that is down: %+v", v)
	}
	w.source.down = nil
	w.source.since = map[string]time.Time{a.ID: w.now.Truncate(time.Minute)}
	w.pass(5)
	if up := *w.show(a.ID).UptimePct24h; math.Abs(up-100*(1440-30)/1440.0) > 1e-9 {
		t.Errorf("uptime of an agent that was down for half an hour: %v", up)
	}
	if up := *w.show(b.ID).UptimePct24h; up != 100 {
		t.Errorf("uptime of an agent that never was: %v", up)
	}
}

// TestCells: the trouble of one cell is not another's.
func TestCells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here := w.agent(agent.Running)
	there := here
	there.ID, there.Cell = "", "two"
	there = w.Put(there)
	w.collect() // the signal knows no agent of the second cell
	progress, err := w.Progress(t.Context())
	if err != nil || progress["one"].Until.IsZero() || !progress["two"].Until.IsZero() ||
		progress["two"].Next.IsZero() {
		t.Errorf("%+v, %v", progress, err)
	}
	if w.show(here.ID).CollectedAt == nil || w.show(there.ID).CollectedAt != nil {
		t.Error("cells are mixed up")
	}
	cells := map[string]int{}
	for _, q := range w.source.asked() {
		cells[q.Cell]++
	}
	if !maps.Equal(cells, map[string]int{"one": 8, "two": 8}) {
		t.Errorf("asked %v", cells)
	}
}

// TestLifetimes: agents may go, and lose their snapshot, while they are collected.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, gone, competed := w.agent(agent.Running), w.agent(agent.Running), w.agent(agent.Running)
	w.Forget(old.ID)
	w.collector.Source = during{w.source, func() {
		w.Delete(gone.ID)
		w.look(competed.ID)
		w.Put(old) // another version
	}}
	w.collect()
	for _, id := range []string{old.ID, competed.ID} {
		if v := w.show(id); v.CPUPct == nil {
			t.Errorf("%+v", v)
		}
	}
	if found, _ := w.Load(t.Context(), []string{gone.ID}); len(found) != 0 {
		t.Error("an agent that is gone has a snapshot")
	}
}

// during does something between reading and writing.
type during struct {
	metrics.Source
	do func()
}

// Read implements metrics.Source.
func (d during) Read(ctx context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage, error) {
	if q.Metric == metrics.Restarts {
		d.do()
	}
	return d.Source.Read(ctx, q, visit)
}
