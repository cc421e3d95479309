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
			reading: Reading{CPU: at(map[int]float64{1: 0})}, want: Figures{CPUCores: value(0), CPUPct: value(0)},
		},
		"the last fresh sample counts": {
			reading: Reading{CPU: at(map[int]float64{5: 0.25})},
			want:    Figures{CPUCores: value(0.25), CPUPct: value(25)},
		},
		"an old sample does not count": {reading: Reading{CPU: at(map[int]float64{6: 0.25})}, want: Figures{}},
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
			last: ago(2), now: ago(1).Add(17 * time.Second), wantFrom: ago(15), wantTo: ago(1),
		},
		"read hours ago": {last: ago(300), now: noon(), wantFrom: ago(310), wantTo: noon()},
		"read days ago":  {last: ago(10_000), now: noon(), wantFrom: noon().Add(-Day), wantTo: noon()},
	} {
		if got := spanSince(row.last, row.now); !got.From.Equal(row.wantFrom) || !got.To.Equal(row.wantTo) {
			t.Errorf("%s: span from %v to %v, want %v to %v", name, got.From, got.To, row.wantFrom, row.wantTo)
		}
	}
}
