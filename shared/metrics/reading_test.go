package metrics

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ago(minutes int) time.Time { return noon().Add(-time.Duration(minutes) * time.Minute) }

// at makes values from a map of minutes before noon to values.
func at(values map[int]float64) Minutes {
	m := Minutes{}
	for minutes, v := range values {
		m[ago(minutes).Unix()] = v
	}
	return m
}

// always makes the same value for every minute between two times before noon.
func always(from, to int, v float64) Minutes {
	m := Minutes{}
	for i := to; i <= from; i++ {
		m[ago(i).Unix()] = v
	}
	return m
}

func starter(t *testing.T) *plan.Plan {
	t.Helper()
	p, err := plan.Get(plan.Starter) // 1 core, 2 GiB, 10 GiB
	if err != nil {
		t.Fatal(err)
	}
	return &p
}

func value(v float64) *float64 { return &v }

// TestAddReading_ComputesFigures reads the quarter of an hour before noon.
func TestAddReading_ComputesFigures(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reading   Reading
		unlimited bool
		want      Figures
	}{
		"no samples": {want: Figures{}},
		"all metrics": {
			reading: Reading{
				CPU: at(map[int]float64{2: 0.5, 1: 0.25}), Memory: at(map[int]float64{1: 512 << 20}),
				Volume:  at(map[int]float64{1: 0.125}),
				Latency: 84, LatencyAt: ago(0),
			},
			want: Figures{
				CPUCores: value(0.25), CPUPct: value(25), MemoryBytes: value(512 << 20), MemPct: value(25),
				PVCPct: value(12.5), LatencyMillis: value(84),
			},
		},
		"without limits": {
			reading:   Reading{CPU: at(map[int]float64{1: 0.25}), Memory: at(map[int]float64{1: 100})},
			unlimited: true,
			want:      Figures{CPUCores: value(0.25), MemoryBytes: value(100)},
		},
		"zero is measured": {
			reading: Reading{CPU: at(map[int]float64{1: 0})},
			want:    Figures{CPUCores: value(0), CPUPct: value(0)},
		},
		"the last fresh sample counts": {
			reading: Reading{CPU: at(map[int]float64{5: 0.25})},
			want:    Figures{CPUCores: value(0.25), CPUPct: value(25)},
		},
		"an old sample does not count": {
			reading: Reading{CPU: at(map[int]float64{6: 0.25})}, want: Figures{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			subject := Subject{Limits: starter(t)}
			if row.unlimited {
				subject.Limits = nil
			}
			s := New("a", "o")
			s.AddReading(subject, row.reading, Span{From: ago(15), To: noon()}, noon())
			if diff := cmp.Diff(row.want, s.Figures); diff != "" {
				t.Errorf("figures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAddReading_CountsServing reads the quarter of an hour before noon, twice. The times are in minutes before noon.
func TestAddReading_CountsServing(t *testing.T) {
	t.Parallel()
	change := func(minutes int, s agent.Serving) agent.ServingChange {
		return agent.ServingChange{Since: ago(minutes), Serving: s}
	}
	for name, row := range map[string]struct {
		changes         []agent.ServingChange
		wantUp, wantDue float64
	}{
		"never":        {},
		"all the time": {changes: []agent.ServingChange{change(60, agent.Up)}, wantUp: 15, wantDue: 15},
		"became ready": {changes: []agent.ServingChange{change(7, agent.Up)}, wantUp: 7, wantDue: 7},
		"down for a while": {
			changes: []agent.ServingChange{change(60, agent.Up), change(12, agent.Down), change(9, agent.Up)},
			wantUp:  12, wantDue: 15,
		},
		"down now": {
			changes: []agent.ServingChange{change(60, agent.Up), change(4, agent.Down)}, wantUp: 11, wantDue: 15,
		},
		"down all the time": {changes: []agent.ServingChange{change(60, agent.Down)}, wantUp: 0, wantDue: 15},
		"paused": {
			changes: []agent.ServingChange{change(60, agent.Up), change(10, agent.Idle), change(2, agent.Up)},
			wantUp:  7, wantDue: 7,
		},
		"replaced for a minute": {
			changes: []agent.ServingChange{change(60, agent.Up), change(10, agent.Replacing), change(9, agent.Up)},
			wantUp:  14, wantDue: 14,
		},
		"replaced for longer than usual": {
			changes: []agent.ServingChange{change(60, agent.Up), change(10, agent.Replacing), change(5, agent.Up)},
			wantUp:  10, wantDue: 13,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New("a", "o")
			for range 2 { // adding a reading again changes nothing
				s.AddReading(Subject{Serving: row.changes}, Reading{}, Span{From: ago(15), To: noon()}, noon())
				if up := s.Up.sum(time.Time{}) / 60; math.Abs(up-row.wantUp) > 1e-9 {
					t.Errorf("up for %v minutes, want %v", up, row.wantUp)
				}
				if due := s.Due.sum(time.Time{}) / 60; math.Abs(due-row.wantDue) > 1e-9 {
					t.Errorf("due for %v minutes, want %v", due, row.wantDue)
				}
			}
		})
	}
}

// collect adds readings as the collector does: every five minutes, from the last one on.
func collect(s *Snapshot, from, to int, subject func(now time.Time) Subject) {
	for minutes := from; minutes >= to; minutes -= 5 {
		s.AddReading(subject(ago(minutes)), Reading{}, spanSince(ago(minutes+5), ago(minutes)), ago(minutes))
	}
}

// TestAddReading_UptimeFallsDuringAnOutage collects the life of an agent of 50 minutes that was down from the 30th to
// the 20th minute before noon. No worker notices the outage in its first two minutes.
func TestAddReading_UptimeFallsDuringAnOutage(t *testing.T) {
	t.Parallel()
	life := func(now time.Time) Subject {
		known := []agent.ServingChange{{Since: ago(50), Serving: agent.Up}}
		if now.After(ago(28)) {
			known = append(known, agent.ServingChange{Since: ago(30), Serving: agent.Down})
		}
		if now.After(ago(20)) {
			known = append(known, agent.ServingChange{Since: ago(20), Serving: agent.Up})
		}
		return Subject{Serving: known}
	}
	s := New("a", "o")
	for _, step := range []struct {
		from, to int
		want     float64
	}{
		{from: 45, to: 30, want: 100},
		{from: 25, to: 25, want: 100 * 20.0 / 25},
		{from: 20, to: 20, want: 100 * 20.0 / 30},
		{from: 15, to: 0, want: 100 * 40.0 / 50},
	} {
		collect(&s, step.from, step.to, life)
		if got := deref(s.Figures.UptimePct); math.Abs(got-step.want) > 1e-9 {
			t.Errorf("uptime %d minutes before noon = %v %%, want %v %%", step.to, got, step.want)
		}
	}
}

// TestAddReading_UptimeIsAtMost100 has agents that served all the time since any of the milliseconds of a second.
func TestAddReading_UptimeIsAtMost100(t *testing.T) {
	t.Parallel()
	for millis := range 1000 {
		since := noon().Add(-164*time.Second - time.Duration(millis)*time.Millisecond)
		s := New("a", "o")
		served := Subject{Serving: []agent.ServingChange{{Since: since, Serving: agent.Up}}}
		s.AddReading(served, Reading{}, Span{From: ago(5), To: noon()}, noon())
		if got := deref(s.Figures.UptimePct); got != 100 {
			t.Fatalf("uptime since %s = %v %%, want 100 %%", since.Format(time.StampMilli), got)
		}
	}
}

// TestAddReading_KeepsWhatTheRecordForgot has a record of two changes only, the latest.
func TestAddReading_KeepsWhatTheRecordForgot(t *testing.T) {
	t.Parallel()
	all := []agent.ServingChange{
		{Since: ago(60), Serving: agent.Up},
		{Since: ago(13), Serving: agent.Down},
		{Since: ago(12), Serving: agent.Up},
		{Since: ago(9), Serving: agent.Down},
		{Since: ago(8), Serving: agent.Up},
	}
	s := New("a", "o")
	s.AddReading(Subject{Serving: all[:3]}, Reading{}, Span{From: ago(20), To: ago(10)}, ago(10))
	s.AddReading(Subject{Serving: all[3:]}, Reading{}, Span{From: ago(15), To: noon()}, noon())
	// The minute before the changes that the record still has was in no reading.
	if up, due := s.Up.sum(time.Time{})/60, s.Due.sum(time.Time{})/60; up != 17 || due != 19 {
		t.Errorf("up for %v of %v minutes, want 17 of 19", up, due)
	}
}

// TestAddReading_CountsRestartsOfADay reads the total of the record. A restart of yesterday does not count any more.
func TestAddReading_CountsRestartsOfADay(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	for _, step := range []struct {
		minutes int
		total   int64
		want    float64
	}{
		{minutes: 1800, total: 2, want: 2},
		{minutes: 300, total: 2, want: 0},
		{minutes: 295, total: 5, want: 3},
		{minutes: 5, total: 6, want: 4},
	} {
		for range 2 { // adding a reading again changes nothing
			span := Span{From: ago(step.minutes + 5), To: ago(step.minutes)}
			s.AddReading(Subject{Restarts: step.total}, Reading{}, span, span.To)
			if s.Figures.Restarts != step.want {
				t.Errorf("%d minutes before noon: %v restarts, want %v", step.minutes, s.Figures.Restarts, step.want)
			}
		}
	}
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

func TestAddReading_LateSamplesFillTheirMinute(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	first := Reading{CPU: at(map[int]float64{12: 0.1, 11: 0.3, 10: 0.1})}
	s.AddReading(Subject{}, first, Span{From: ago(15), To: ago(5)}, ago(5))
	late := Reading{CPU: at(map[int]float64{12: 0.1, 11: 0.3, 10: 0.1, 7: 0.5, 1: 0.2})}
	s.AddReading(Subject{}, late, Span{From: ago(15), To: noon()}, noon())
	want := []Point{
		{T: ago(13).Unix(), V: 0.1},
		{T: ago(12).Unix(), V: 0.3},
		{T: ago(11).Unix(), V: 0.1},
		{T: ago(8).Unix(), V: 0.5},
		{T: ago(2).Unix(), V: 0.2},
	}
	v := s.Show(Window1h, noon())
	if diff := cmp.Diff(want, v.Series.CPU); diff != "" {
		t.Errorf("CPU points of an hour (-want +got):\n%s", diff)
	}
	want = []Point{{T: ago(15).Unix(), V: 0.5 / 3}, {T: ago(10).Unix(), V: 0.5}, {T: ago(5).Unix(), V: 0.2}}
	for _, w := range []Window{Window6h, Window24h} {
		if diff := cmp.Diff(want, s.Show(w, noon()).Series.CPU,
			cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
			t.Errorf("CPU points of %s (-want +got):\n%s", w, diff)
		}
	}
}

func TestAddReading_RequestsWithoutErrorsAreZeroErrors(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.AddReading(Subject{}, Reading{Requests: at(map[int]float64{3: 1, 2: 1}), Errors: at(map[int]float64{2: 0.5})},
		Span{From: ago(15), To: noon()}, noon())
	if diff := cmp.Diff([]Point{{T: ago(4).Unix(), V: 0}, {T: ago(3).Unix(), V: 0.5}},
		s.Show(Window1h, noon()).Series.Errors); diff != "" {
		t.Errorf("error points (-want +got):\n%s", diff)
	}
}

func TestReading_AddDropsInvalidAndForeignSamples(t *testing.T) {
	t.Parallel()
	const host = "bot.agents.example.com"
	var r Reading
	for _, add := range []struct {
		metric Metric
		sample Sample
	}{
		{metric: Requests, sample: Sample{Host: host, At: ago(1), Value: 1}},
		{metric: Requests, sample: Sample{Host: "other." + host, At: ago(1), Value: 7}},
		{metric: Requests, sample: Sample{At: ago(2), Value: 7}},
		{metric: Errors, sample: Sample{Host: "x", At: ago(1), Value: 7}},
		{metric: CPU, sample: Sample{At: ago(1), Value: math.NaN()}},
		{metric: CPU, sample: Sample{At: ago(2), Value: math.Inf(1)}},
		{metric: CPU, sample: Sample{At: ago(3), Value: 2}},
		{metric: Latency, sample: Sample{Host: host, At: ago(5), Value: 80}},
		{metric: Latency, sample: Sample{Host: host, At: ago(10), Value: 90}}, // older, although added later
		{metric: Latency, sample: Sample{Host: host, At: ago(0), Value: 0}},   // zero requests
		{metric: Latency, sample: Sample{Host: "x", At: ago(0), Value: 1}},
		{metric: "unknown", sample: Sample{At: ago(0), Value: 3}},
	} {
		r.add(add.metric, add.sample, host)
	}
	want := Reading{
		CPU: at(map[int]float64{3: 2}), Requests: at(map[int]float64{1: 1}), Latency: 80, LatencyAt: ago(5),
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("reading (-want +got):\n%s", diff)
	}
}

func TestSpanSince_CoversLateSamplesAndWholeIntervals(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ last, now, wantFrom, wantTo time.Time }{
		"never read":       {last: time.Time{}, now: noon(), wantFrom: noon().Add(-Day), wantTo: noon()},
		"read a cycle ago": {last: ago(5), now: noon(), wantFrom: ago(15), wantTo: noon()},
		"in the middle of a minute": {
			last: ago(2), now: ago(1).Add(17 * time.Second), wantFrom: ago(15),
			wantTo: ago(1),
		},
		"read hours ago": {last: ago(300), now: noon(), wantFrom: ago(310), wantTo: noon()},
		"read days ago":  {last: ago(10_000), now: noon(), wantFrom: noon().Add(-Day), wantTo: noon()},
	} {
		if got := spanSince(row.last, row.now); !got.From.Equal(row.wantFrom) || !got.To.Equal(row.wantTo) {
			t.Errorf("%s: span from %v to %v, want %v to %v", name, got.From, got.To, row.wantFrom, row.wantTo)
		}
	}
}
