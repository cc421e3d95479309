package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/metrics"
)

// wantQueries checks the number of queries since the last check, and returns them.
func (f *collectorFixture) wantQueries(when string, want int) []metrics.Query {
	f.Helper()
	queries := f.source.takeQueries()
	if len(queries) != want {
		f.Errorf("%d queries %s, want %d", len(queries), when, want)
	}
	return queries
}

// wantCounts checks the numbers of snapshots read and written, and of agents read, since the last check.
func (f *collectorFixture) wantCounts(when string, wantLoads, wantSaves, wantAgents int) {
	f.Helper()
	loads, saves, agents := f.Counts()
	if loads != wantLoads {
		f.Errorf("%d snapshots read %s, want %d", loads, when, wantLoads)
	}
	if saves != wantSaves {
		f.Errorf("%d snapshots written %s, want %d", saves, when, wantSaves)
	}
	if agents != wantAgents {
		f.Errorf("%d agents read %s, want %d", agents, when, wantAgents)
	}
}

// wantStale checks whether the view of an agent is stale, and returns the view.
func (f *collectorFixture) wantStale(id string, want bool) metrics.View {
	f.Helper()
	v := f.show(id)
	if v.Stale != want {
		f.Errorf("Stale = %t, want %t", v.Stale, want)
	}
	return v
}

// wantPoints checks the number of points in the CPU series of an agent.
func (f *collectorFixture) wantPoints(id string, want int) {
	f.Helper()
	if got := len(f.show(id).Series.CPU); got != want {
		f.Errorf("%d CPU points, want %d", got, want)
	}
}

// wantUptime checks the uptime of an agent, in percent.
func (f *collectorFixture) wantUptime(id string, want float64) {
	f.Helper()
	switch got := f.show(id).UptimePct24h; {
	case got == nil:
		f.Errorf("uptime is null, want %v", want)
	case math.Abs(*got-want) > 1e-9:
		f.Errorf("uptime = %v, want %v", *got, want)
	}
}

func TestCollect_CollectsAllDueAgentsOncePerCycle(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	running := f.putAgent(agent.Running)
	others := map[agent.Status]string{}
	for _, status := range []agent.Status{
		agent.Provisioning, agent.Pending, agent.Paused, agent.Stopped,
		agent.Deleting,
	} {
		others[status] = f.putAgent(status).ID
	}
	longBroken := f.putAgent(agent.Error)
	longBroken.UpdatedAt = f.now.Add(-25 * time.Hour)
	f.Put(longBroken)

	f.collect()
	queries := f.wantQueries("in the first cycle", len(metrics.Metrics()))
	if len(queries) == 0 {
		t.FailNow()
	}
	if queries[0].Agents != nil || queries[0].Cell != "one" {
		t.Errorf("query for the agents %v of cell %q, want all agents of cell one", queries[0].Agents, queries[0].Cell)
	}
	v := f.wantStale(running.ID, false)
	if v.CPUPct == nil || *v.CPUPct != 50 {
		t.Errorf("CPUPct = %s, want 50", number(v.CPUPct))
	}
	f.wantPoints(running.ID, 59)
	f.wantUptime(running.ID, 100)
	if loads, saves, _ := f.Counts(); loads != 1 || saves != 1 {
		t.Errorf("%d snapshots read and %d written, want 1 each", loads, saves)
	}
	for status, id := range others {
		if v := f.show(id); v.CollectedAt != nil {
			t.Errorf("an agent with status %s was collected at %v, want never", status, v.CollectedAt)
		}
	}

	f.advance(4)
	f.wantQueries("between cycles without views", 0)
	if _, _, agents := f.Counts(); agents != 0 {
		t.Errorf("%d agents read between cycles, want 0", agents)
	}
	f.advance(1)
	f.wantQueries("in the next cycle", len(metrics.Metrics()))
	if got := f.show(running.ID).CollectedAt; got.Before(f.now) {
		t.Errorf("CollectedAt = %v after the next cycle, want %v", got, f.now)
	}
}

// number formats a figure for a failure message.
// TestCollect_ReachesAgentsAfterAnUnreadableRecord: a page that is short is not the last.
func TestCollect_ReachesAgentsAfterAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	const agents = 310 // more than one page
	f := newCollectorFixture(t)
	ids := make([]string, agents)
	for i := range ids {
		ids[i] = f.putAgent(agent.Running).ID
	}
	slices.Sort(ids)
	f.MakeUnreadable(ids[0])
	f.collect()
	if v := f.show(ids[agents-1]); v.CPUPct == nil {
		t.Error("CPUPct of the last agent is null, want a value")
	}
}

func number(v *float64) string {
	if v == nil {
		return "null"
	}
	return strconv.FormatFloat(*v, 'g', -1, 64)
}

func TestCollect_CallsDoNotGrowWithAgents(t *testing.T) {
	t.Parallel()
	for _, n := range []int{10, 1000} {
		f := newCollectorFixture(t)
		f.source.started = map[string]time.Time{}
		for range n {
			f.source.started[f.putAgent(agent.Running).ID] = f.now.Truncate(time.Minute)
		}
		f.advance(10)
		f.source.takeQueries()
		f.Counts()
		f.advance(5)
		when := fmt.Sprintf("in a cycle of %d agents", n)
		f.wantQueries(when, len(metrics.Metrics()))
		f.wantCounts(when, n, n, n)
	}
}

// TestCollect_ReadsALongSpanInPieces checks that a day of many agents is read in pieces, at consecutive ticks and from
// the oldest, and that the snapshots stay stale until the last piece.
func TestCollect_ReadsALongSpanInPieces(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	var last agent.Agent
	for range 3 {
		last = f.putAgent(agent.Running)
	}
	f.collector.Minutes = 3 * 666
	pieces := 0
	for v := f.show(last.ID); v.Stale; v = f.show(last.ID) {
		if pieces++; pieces > 3 {
			t.Fatalf("the snapshot is still stale after 3 pieces: %+v", v)
		}
		if f.advance(1); pieces < 3 {
			f.wantStale(last.ID, true)
		}
		if _, saves, _ := f.Counts(); saves != 3 {
			t.Errorf("piece %d: %d snapshots written, want 3", pieces, saves)
		}
	}
	found, err := f.Load(t.Context(), []string{last.ID})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := found[last.ID]
	if points := snapshot.Show(metrics.Window24h, f.now).Series.CPU; len(points) != 288 {
		t.Errorf("%d CPU points from %d pieces, want 288", len(points), pieces)
	}

	// A piece of the past does not replace figures of the present.
	snapshot.AddReading(metrics.Subject{}, metrics.Reading{},
		metrics.Span{From: f.now.Add(-2 * time.Hour), To: f.now.Add(-time.Hour)}, f.now)
	v := snapshot.Show(metrics.Window1h, f.now)
	if v.CPUCores == nil {
		t.Error("CPUCores is null after a reading of the past, want the present value")
	}
	if v.Stale {
		t.Error("Stale = true after a reading of the past, want false")
	}
}

func TestCollect_CollectsViewedAgentsAtEveryTick(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	viewed, unviewed, paused := f.putAgent(agent.Running), f.putAgent(agent.Running), f.putAgent(agent.Paused)
	f.collect()
	before := f.now
	f.view(viewed.ID)
	f.view(paused.ID)
	f.source.takeQueries()
	f.Counts()

	f.advance(1)
	queries := f.wantQueries("while an agent is viewed", len(metrics.Metrics()))
	if len(queries) == 0 {
		t.FailNow()
	}
	if got := queries[0].Agents; !slices.Equal(got, []string{viewed.ID}) {
		t.Errorf("query for the agents %v, want only %s", got, viewed.ID)
	}
	if got := f.now.Sub(queries[0].Span.From); got > 20*time.Minute {
		t.Errorf("query for the last %v, want at most 20m", got)
	}
	if _, saves, _ := f.Counts(); saves != 1 {
		t.Errorf("%d snapshots written, want 1", saves)
	}
	if got := f.show(viewed.ID).CollectedAt; !got.Equal(f.now) {
		t.Errorf("the viewed agent was collected at %v, want %v", got, f.now)
	}
	if got := f.show(unviewed.ID).CollectedAt; !got.Equal(before) {
		t.Errorf("the other agent was collected at %v, want %v", got, before)
	}

	f.advance(15)
	f.source.takeQueries()
	f.advance(3)
	f.wantQueries("after the watch period", 0)
}

// TestCollect_CatchesUpAfterAnOutage checks that no samples are lost while the source fails or the collector does not
// run.
func TestCollect_CatchesUpAfterAnOutage(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	a := f.putAgent(agent.Running)
	began := f.now.Truncate(time.Minute)
	a.EndStage(agent.StageReady, agent.StageSucceeded, began)
	f.Put(a)
	f.source.started = map[string]time.Time{a.ID: began}
	f.collect()

	outage := errors.New("no answer")
	f.source.err = outage
	for range 30 {
		f.now = f.now.Add(time.Minute)
		if err := f.collector.Collect(t.Context()); err != nil && !errors.Is(err, outage) {
			t.Fatalf("Collect = %v, want %v", err, outage)
		}
	}
	f.wantStale(a.ID, true)
	f.source.err = nil
	f.advance(1)
	f.wantStale(a.ID, false)
	f.wantPoints(a.ID, 31)
	f.wantUptime(a.ID, 100)

	f.now = f.now.Add(20 * time.Minute) // the collector does not run
	f.advance(1)
	f.wantStale(a.ID, false)
	f.wantPoints(a.ID, 52)
}

// TestCollect_AsksAgainForSamplesOfAllAgents checks that the collector retries if no agent has samples, and that the
// uptime is what the records say, whether or not there are samples.
func TestCollect_AsksAgainForSamplesOfAllAgents(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	a, b := f.putAgent(agent.Running), f.putAgent(agent.Running)
	f.collect()
	f.source.down = map[string]bool{a.ID: true, b.ID: true}
	f.advance(30)
	f.wantStale(a.ID, true)
	f.source.down = nil
	f.advance(5)
	f.wantStale(a.ID, false)
	f.wantUptime(a.ID, 100)
	f.wantPoints(a.ID, 59)

	f.source.down = map[string]bool{a.ID: true}
	f.advance(30)
	v := f.wantStale(a.ID, false)
	if v.CPUPct != nil {
		t.Errorf("CPUPct of an agent that is down = %v, want null", *v.CPUPct)
	}
	f.wantUptime(a.ID, 100)

	a.ServingChanges = append(a.ServingHistory(), agent.ServingChange{Since: f.now, Serving: agent.Down})
	f.Put(a)
	since := a.ServingChanges[0].Since
	up := f.now.Sub(since)
	f.advance(30)
	f.wantUptime(a.ID, 100*float64(up)/float64(f.now.Truncate(time.Minute).Sub(since)))
	f.wantUptime(b.ID, 100)
}

func TestCollect_KeepsCellsApart(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	healthy := f.putAgent(agent.Running)
	silent := healthy
	silent.ID, silent.Cell = "", "two"
	silent = f.Put(silent)
	f.collect() // the source has no samples of the second cell
	progress, err := f.Progress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if progress["one"].Until.IsZero() {
		t.Error("cell one has no progress, want it collected")
	}
	if got := progress["two"].Until; !got.IsZero() {
		t.Errorf("cell two is collected until %v, want never", got)
	}
	if progress["two"].Next.IsZero() {
		t.Error("cell two has no next collection")
	}
	if f.show(healthy.ID).CollectedAt == nil {
		t.Error("the agent of cell one was not collected")
	}
	if got := f.show(silent.ID).CollectedAt; got != nil {
		t.Errorf("the agent of cell two was collected at %v, want never", got)
	}
	queries := map[string]int{}
	for _, q := range f.source.takeQueries() {
		queries[q.Cell]++
	}
	if want := map[string]int{"one": 6, "two": 6}; !maps.Equal(queries, want) {
		t.Errorf("queries by cell = %v, want %v", queries, want)
	}
}

func TestCollect_HandlesConcurrentChangesOfAgentsAndSnapshots(t *testing.T) {
	t.Parallel()
	f := newCollectorFixture(t)
	changed, deleted, viewed := f.putAgent(agent.Running), f.putAgent(agent.Running), f.putAgent(agent.Running)
	f.Forget(changed.ID)
	f.collector.Source = interruptedSource{f.source, func() {
		f.Delete(deleted.ID)
		f.view(viewed.ID)
		f.Put(changed) // gives the record another version
	}}
	f.collect()
	for name, id := range map[string]string{"changed": changed.ID, "viewed": viewed.ID} {
		if v := f.show(id); v.CPUPct == nil {
			t.Errorf("CPUPct of the %s agent is null, want a value", name)
		}
	}
	if found, _ := f.Load(t.Context(), []string{deleted.ID}); len(found) != 0 {
		t.Errorf("the deleted agent has the snapshot %+v, want none", found)
	}
}

// interruptedSource calls interrupt between the collector's reads and writes.
type interruptedSource struct {
	metrics.Source
	interrupt func()
}

// Read implements metrics.Source.
func (s interruptedSource) Read(ctx context.Context, q metrics.Query, visit func(metrics.Sample)) (metrics.Usage,
	error,
) {
	if q.Metric == metrics.Latency {
		s.interrupt()
	}
	return s.Source.Read(ctx, q, visit)
}
