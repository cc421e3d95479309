package metrics_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/metrics/metricstest"
)

// traffic is what an agent served, and when the source shows it.
type traffic struct {
	begin time.Time
	// rates are the requests per second of each minute, and delays how late the source shows it.
	rates  []float64
	delays []time.Duration
}

// read returns what the source shows of a span at a time. A minute that it shows before its delay is over has a part of
// its requests, or none.
func (w traffic) read(span metrics.Span, at time.Time) metrics.Reading {
	r := metrics.Reading{Requests: metrics.Minutes{}, Errors: metrics.Minutes{}}
	for i, rate := range w.rates {
		end := w.begin.Add(time.Duration(i+1) * time.Minute)
		switch {
		case !end.After(span.From) || end.After(span.To) || end.After(at):
		case !at.Before(end.Add(w.delays[i])):
			r.Requests[end.Unix()] = rate
			r.Errors[end.Unix()] = rate / 4
		case i%2 == 0:
			r.Requests[end.Unix()] = rate / 2
		}
	}
	return r
}

// until is how many requests there were up to a time.
func (w traffic) until(at time.Time) (total float64) {
	for i, rate := range w.rates {
		if !w.begin.Add(time.Duration(i+1) * time.Minute).After(at) {
			total += rate * 60
		}
	}
	return total
}

// TestCounted_CountsEachMinuteOnceWhateverHappens has collections that are missed, repeated, late, lost before they are
// written, and made again after their worker died, and compares the number after each with the traffic.
func TestCounted_CountsEachMinuteOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := traffic{begin: metricstest.Now()}
		for range 120 {
			w.rates = append(w.rates, float64(rapid.IntRange(0, 50).Draw(t, "rate")))
			w.delays = append(w.delays, time.Duration(rapid.IntRange(0, 4).Draw(t, "delay"))*time.Minute)
		}
		s, subject := metrics.New("a", "o"), metrics.Subject{AgentID: "a", OrganizationID: "o"}
		type collection struct {
			reading metrics.Reading
			span    metrics.Span
			at      time.Time
		}
		var done []collection
		last, now, before := w.begin, w.begin.Add(7*time.Second), 0.0
		for now.Before(w.begin.Add(2 * time.Hour)) {
			now = now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "minutes")) * time.Minute)
			from := last.Add(-metrics.MaxSampleDelay - 5*time.Minute).Truncate(5 * time.Minute)
			c := collection{span: metrics.Span{From: from, To: now.Truncate(time.Minute)}, at: now}
			if piece := rapid.IntRange(0, 3).Draw(t, "piece"); piece == 0 && now.Sub(from) > time.Hour {
				c.span.To = from.Add(time.Hour)
			}
			c.reading = w.read(c.span, now)
			done = append(done, c)
			event := rapid.SampledFrom([]string{"ok", "ok", "lost", "died", "late"}).Draw(t, "event")
			if event != "lost" { // its worker died before it wrote
				s.AddReading(subject, c.reading, c.span, c.at)
			}
			switch {
			case event == "lost", event == "died": // no progress was recorded, so the next one reads the same again
			case c.span.To.Before(now.Truncate(time.Minute).Add(-metrics.MaxSampleDelay - 5*time.Minute)):
				last = c.span.To.Add(metrics.MaxSampleDelay + 5*time.Minute)
			default:
				last = c.at
			}
			if event == "late" { // a worker that was paused writes an old one, after it has read the snapshot again
				old := rapid.SampledFrom(done).Draw(t, "old")
				s.AddReading(subject, old.reading, old.span, old.at)
			}
			requests := s.Counted.Requests
			if requests < before {
				t.Fatalf("the number falls from %v to %v", before, requests)
			}
			before = requests
			want := w.until(s.Counted.Until)
			if math.Abs(requests-want) > 1e-6 || math.Abs(s.Counted.Errors-want/4) > 1e-6 {
				t.Fatalf("%v requests and %v errors until %v, want %v and %v", requests, s.Counted.Errors,
					s.Counted.Until, want, want/4)
			}
		}
	})
}

// TestCounted_SkipsWhatNoSampleIsLeftOf reads an agent for the first time, and one again that was paused for a day.
func TestCounted_SkipsWhatNoSampleIsLeftOf(t *testing.T) {
	t.Parallel()
	now := metricstest.Now()
	s, subject := metrics.New("a", "o"), metrics.Subject{AgentID: "a", OrganizationID: "o"}
	collect := func(now time.Time) {
		span := metrics.Span{From: now.Add(-10 * time.Minute), To: now}
		w := traffic{begin: span.From, rates: slices.Repeat([]float64{1}, 10), delays: make([]time.Duration, 10)}
		s.AddReading(subject, w.read(span, now), span, now)
	}
	collect(now)
	if s.Counted.Requests != 360 {
		t.Errorf("%v requests after the first collection, want those of 6 minutes", s.Counted.Requests)
	}
	collect(now.Add(24 * time.Hour))
	if s.Counted.Requests != 720 {
		t.Errorf("%v requests after the second collection, want those of 12 minutes", s.Counted.Requests)
	}
}
