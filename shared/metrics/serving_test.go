package metrics

import (
	"math"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
)

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
		if got := deref(s.Show(Window1h, ago(step.to)).UptimePct24h); math.Abs(got-step.want) > 1e-9 {
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
		if got := deref(s.Show(Window1h, noon()).UptimePct24h); got != 100 {
			t.Fatalf("uptime since %s = %v %%, want 100 %%", since.Format(time.StampMilli), got)
		}
	}
}

// TestAddReading_KeepsWhatTheRecordForgot has a record of the latest changes only. What was counted before stays.
func TestAddReading_KeepsWhatTheRecordForgot(t *testing.T) {
	t.Parallel()
	all := []agent.ServingChange{
		{Since: ago(60), Serving: agent.Up},
		{Since: ago(13), Serving: agent.Down},
		{Since: ago(12), Serving: agent.Up},
		{Since: ago(9), Serving: agent.Down},
		{Since: ago(8), Serving: agent.Up},
	}
	for name, row := range map[string]struct {
		counted         int // minutes before noon
		left            []agent.ServingChange
		wantUp, wantDue float64
	}{
		"all of it was counted":              {counted: 7, left: all[4:], wantUp: 58, wantDue: 60},
		"the minute after the count is lost": {counted: 10, left: all[3:], wantUp: 57, wantDue: 59},
		"nothing is forgotten":               {counted: 10, left: all, wantUp: 58, wantDue: 60},
		"forgotten before any count":         {counted: 60, left: all[3:], wantUp: 8, wantDue: 9},
	} {
		s := New("a", "o")
		add := func(changes []agent.ServingChange, minutes int) {
			s.AddReading(Subject{Serving: changes}, Reading{}, spanSince(ago(minutes+5), ago(minutes)), ago(minutes))
		}
		add(all, row.counted)
		for range 2 { // adding a reading again changes nothing
			add(row.left, 0)
			up, due := s.Up.sum(time.Time{})/60, s.Due.sum(time.Time{})/60
			if up != row.wantUp || due != row.wantDue {
				t.Errorf("%s: up for %v of %v minutes, want %v of %v", name, up, due, row.wantUp, row.wantDue)
			}
		}
	}
}

// TestAddReading_IgnoresAnOlderRecord adds a reading that a slower collector began before the last one.
func TestAddReading_IgnoresAnOlderRecord(t *testing.T) {
	t.Parallel()
	s := New("a", "o")
	up := []agent.ServingChange{{Since: ago(60), Serving: agent.Up}}
	broken := append(slices.Clone(up), agent.ServingChange{Since: ago(6), Serving: agent.Down})
	s.AddReading(Subject{Serving: broken}, Reading{}, Span{From: ago(10), To: noon()}, noon())
	s.AddReading(Subject{Serving: up}, Reading{}, Span{From: ago(10), To: ago(1)}, ago(1))
	if got, want := deref(s.Show(Window1h, noon()).UptimePct24h), 90.0; math.Abs(got-want) > 1e-9 {
		t.Errorf("uptime = %v %%, want %v %%", got, want)
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
			if got := s.Show(Window1h, span.To).Restarts24h; got != step.want {
				t.Errorf("%d minutes before noon: %v restarts, want %v", step.minutes, got, step.want)
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
