package metrics

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/plan"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

func ago(minutes int) time.Time { return noon().Add(-time.Duration(minutes) * time.Minute) }

// at makes minutes of values by how many minutes before noon they ended.
func at(values map[int]float64) Minutes {
	m := Minutes{}
	for minutes, v := range values {
		m[ago(minutes).Unix()] = v
	}
	return m
}

// always has a value in every minute from one to another before noon.
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

// TestFigures computes figures by hand from what was read in the quarter of an hour before noon.
func TestFigures(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		reading   Reading
		unlimited bool
		want      Figures
	}{
		"nothing": {want: Figures{}},
		"all": {
			reading: Reading{
				CPU: at(map[int]float64{2: 0.5, 1: 0.25}), Memory: at(map[int]float64{1: 512 << 20}),
				Volume: at(map[int]float64{1: 0.125}),
				Uptime: always(10, 1, 3600), Restarts: 2, Latency: 84, LatencyAt: ago(0),
			},
			want: Figures{
				CPUCores: value(0.25), CPUPct: value(25), MemoryBytes: value(512 << 20), MemPct: value(25),
				PVCPct:    value(12.5),
				UptimePct: value(100), Restarts: 2, LatencyMillis: value(84),
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
		"an old one does not": {reading: Reading{CPU: at(map[int]float64{6: 0.25}), Uptime: at(map[int]float64{6: 60})},
			want: Figures{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := Subject{Limits: starter(t)}
			if row.unlimited {
				of.Limits = nil
			}
			s := New("a", "o")
			s.AddReading(of, row.reading, Span{From: ago(15), To: noon()}, noon())
			if diff := cmp.Diff(row.want, s.Figures); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestUptime: what should have been up, of the quarter of an hour before noon, in minutes.
func TestUptime(t *testing.T) {
	t.Parallel()
	long := time.Hour
	for name, row := range map[string]struct {
		ready   time.Time // zero: not known
		uptime  Minutes
		up, due float64
	}{
		"all the time":                    {ready: noon().Add(-long), uptime: always(14, 0, 3600), up: 15, due: 15},
		"the last minutes may come late":  {ready: noon().Add(-long), uptime: always(14, 3, 3600), up: 12, due: 12},
		"what is later than late is down": {ready: noon().Add(-long), uptime: always(14, 6, 3600), up: 9, due: 11},
		"a sample speaks for those before": {ready: noon().Add(-long), uptime: at(map[int]float64{0: 3600}), up: 15,
			due: 15},
		"a hole in what is measured": {ready: noon().Add(-long),
			uptime: merged(always(14, 10, 3600), always(7, 0, 3600)), up: 15, due: 15},
		"down for a while": {ready: noon().Add(-long),
			uptime: merged(always(14, 10, 3600), since(7, 7, 0, 15)), up: 12.25, due: 15},
		"a crash takes part of a minute": {ready: noon().Add(-long),
			uptime: merged(always(14, 9, 3600), since(8, 8, 0, 15)), up: 14.25, due: 15},
		"down all the time":       {ready: noon().Add(-long), uptime: nil, up: 0, due: 11},
		"ready lately":            {ready: ago(7), uptime: since(6, 6, 0, 60), up: 7, due: 7},
		"starting does not count": {ready: ago(7), uptime: since(8, 8, 0, 12), up: 8.2, due: 8.2},
		"not known since when it is ready": {ready: time.Time{},
			uptime: merged(always(14, 9, 3600), since(5, 5, 0, 60)), up: 12, due: 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New("a", "o")
			for range 2 { // taking the same again changes nothing
				s.AddReading(Subject{ReadySince: row.ready}, Reading{Uptime: row.uptime},
					Span{From: ago(15), To: noon()},
					noon())
				up, due := s.Up.sum(time.Time{})/60, s.Due.sum(time.Time{})/60
				if math.Abs(up-row.up) > 1e-9 || math.Abs(due-row.due) > 1e-9 {
					t.Errorf("%v of %v minutes, want %v of %v", up, due, row.up, row.due)
				}
			}
		})
	}
}

// since has a value in every minute from one to another before noon, of a container that in the minute that ended first
// was up for some seconds.
func since(first, from, to int, seconds float64) Minutes {
	m := Minutes{}
	for i := to; i <= from; i++ {
		m[ago(i).Unix()] = seconds + 60*float64(first-i)
	}
	return m
}

func merged(all ...Minutes) Minutes {
	m := Minutes{}
	for _, of := range all {
		for end, v := range of {
			m[end] = v
		}
	}
	return m
}

// TestUptimeOverPauses: time in which nothing is collected does not count, and what was due stays so when the agent is
// ready anew.
func TestUptimeOverPauses(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	// Up for an hour until four hours ago, then paused for three hours, then up with half an hour of a crash.
	s.AddReading(Subject{ReadySince: ago(300)}, Reading{Uptime: since(299, 299, 240, 60)},
		Span{From: ago(300), To: ago(240)},
		ago(240))
	s.AddReading(Subject{ReadySince: ago(60)}, Reading{Uptime: since(59, 59, 31, 60)}, Span{From: ago(65), To: ago(25)},
		ago(25))
	s.AddReading(Subject{ReadySince: ago(60)}, Reading{Uptime: since(59, 34, 31, 60)}, Span{From: ago(35), To: ago(5)},
		ago(5))
	s.AddReading(Subject{ReadySince: ago(2)}, Reading{Uptime: since(1, 1, 0, 60)}, Span{From: ago(15), To: noon()},
		noon())
	// 60 + 29 + 2 minutes up; down from 31 to 9 minutes ago, as was certain 5 minutes ago.
	if want := 100 * 91.0 / (91 + 22); s.Figures.UptimePct == nil || math.Abs(*s.Figures.UptimePct-want) > 1e-9 {
		t.Errorf("uptime %v, want %v", deref(s.Figures.UptimePct), want)
	}
}

func deref(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}

// TestLateSamples fill their place; what is still missing is a gap.
func TestLateSamples(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	first := Reading{CPU: at(map[int]float64{12: 0.1, 11: 0.3, 10: 0.1})}
	s.AddReading(Subject{}, first, Span{From: ago(15), To: ago(5)}, ago(5))
	late := Reading{CPU: at(map[int]float64{12: 0.1, 11: 0.3, 10: 0.1, 7: 0.5, 1: 0.2})}
	s.AddReading(Subject{}, late, Span{From: ago(15), To: noon()}, noon())
	want := []Point{{T: ago(13).Unix(), V: 0.1}, {T: ago(12).Unix(), V: 0.3}, {T: ago(11).Unix(), V: 0.1},
		{T: ago(8).Unix(), V: 0.5}, {T: ago(2).Unix(), V: 0.2}}
	v := s.Show(Window1h, noon())
	if diff := cmp.Diff(want, v.Series.CPU); diff != "" {
		t.Error(diff)
	}
	want = []Point{{T: ago(15).Unix(), V: 0.5 / 3}, {T: ago(10).Unix(), V: 0.5}, {T: ago(5).Unix(), V: 0.2}}
	for _, w := range []Window{Window6h, Window24h} {
		if diff := cmp.Diff(want, s.Show(w, noon()).Series.CPU,
			cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-12 })); diff != "" {
			t.Errorf("%s: %s", w, diff)
		}
	}
}

// TestErrors: where requests were counted and errors were not, there were none.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	s.AddReading(Subject{}, Reading{Requests: at(map[int]float64{3: 1, 2: 1}), Errors: at(map[int]float64{2: 0.5})},
		Span{From: ago(15), To: noon()}, noon())
	if diff := cmp.Diff([]Point{{T: ago(4).Unix(), V: 0}, {T: ago(3).Unix(), V: 0.5}},
		s.Show(Window1h, noon()).Series.Errors); diff != "" {
		t.Error(diff)
	}
}

// TestAdd sorts samples: what is no number, no time or of another host is dropped.
func TestAdd(t *testing.T) {
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
		{metric: Latency, sample: Sample{Host: host, At: ago(10), Value: 90}}, // older, later
		{metric: Latency, sample: Sample{Host: host, At: ago(0), Value: 0}},   // of no requests
		{metric: Latency, sample: Sample{Host: "x", At: ago(0), Value: 1}},
		{metric: Restarts, sample: Sample{At: ago(0), Value: 3}},
		{metric: "unknown", sample: Sample{At: ago(0), Value: 3}},
	} {
		r.add(add.metric, add.sample, host)
	}
	want := Reading{
		CPU: at(map[int]float64{3: 2}), Requests: at(map[int]float64{1: 1}), Latency: 80, LatencyAt: ago(5),
		Restarts: 3,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ last, now, from, to time.Time }{
		"never before":          {last: time.Time{}, now: noon(), from: noon().Add(-Day), to: noon()},
		"a cycle ago":           {last: ago(5), now: noon(), from: ago(15), to: noon()},
		"in the midst":          {last: ago(2), now: ago(1).Add(17 * time.Second), from: ago(15), to: ago(1)},
		"hours of being absent": {last: ago(300), now: noon(), from: ago(310), to: noon()},
		"days of being absent":  {last: ago(10_000), now: noon(), from: noon().Add(-Day), to: noon()},
	} {
		if got := spanSince(row.last, row.now); !got.From.Equal(row.from) || !got.To.Equal(row.to) {
			t.Errorf("%s: %v to %v", name, got.From, got.To)
		}
	}
}
