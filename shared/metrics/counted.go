package metrics

import (
	"maps"
	"slices"
	"time"
)

// Counted is how many requests an agent served since its snapshot exists. The numbers never fall.
type Counted struct {
	Requests, Errors float64
	// Until is the end of the last minute that was counted; zero before the first one. It is written together with the
	// numbers, so no minute counts twice: not if a collection is repeated, late, or concurrent with another one, and
	// not if a worker dies after it has written.
	Until time.Time
}

// countRequests counts the minutes of a reading that were not counted yet. A minute counts once its sample cannot be
// late any more, because the source may show a part of a minute first. One without a sample had no requests.
func (s *Snapshot) countRequests(r Reading, span Span, now time.Time) {
	until := now.Truncate(fineStep).Add(-MaxSampleDelay)
	if span.To.Before(until) {
		until = span.To // a piece of the past
	}
	after := s.Counted.Until
	if after.Before(span.From) {
		after = span.From // what was before has no samples any more
	}
	if !until.After(after) {
		return
	}
	s.Counted.Requests += r.Requests.total(after, until)
	s.Counted.Errors += r.Errors.total(after, until)
	s.Counted.Until = until
}

// total is what the rates per second of the minutes between two times add up to. It adds them in the order of time, so
// that equal readings have equal totals.
func (m Minutes) total(after, until time.Time) (total float64) {
	for _, end := range slices.Sorted(maps.Keys(m)) {
		if end > after.Unix() && end <= until.Unix() {
			total += max(0, m[end]) * fineStep.Seconds()
		}
	}
	return total
}
