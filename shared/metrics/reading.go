package metrics

import (
	"maps"
	"math"
	"time"
)

// Reading holds the samples of one agent for a Span: values per minute, and values for longer times.
type Reading struct {
	CPU, Memory, Volume, Requests, Errors Minutes
	// Latency is the newest 95th percentile in milliseconds. LatencyAt is when it was measured; zero for never.
	Latency   float64
	LatencyAt time.Time
}

// add puts a sample into the reading. Samples may come in any order. Requests to other hostnames than the agent's own
// do not count: a client can put any name into a request.
func (r *Reading) add(m Metric, s Sample, hostname string) {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || m.byHost() && s.Host != hostname {
		return
	}
	switch m {
	case Latency:
		// The source reports a percentile of zero requests as 0. A real request takes longer than that.
		if s.Value > 0 && s.At.After(r.LatencyAt) {
			r.Latency, r.LatencyAt = s.Value, s.At
		}
	default:
		values := map[Metric]*Minutes{
			CPU: &r.CPU, Memory: &r.Memory, Volume: &r.Volume, Requests: &r.Requests, Errors: &r.Errors,
		}[m]
		if values == nil {
			return
		}
		if *values == nil {
			*values = Minutes{}
		}
		(*values)[s.At.Unix()] = s.Value
	}
}

// Span is the time that a reading covers: after From, up to and including To. From is the start of a five-minute
// interval, To the end of a minute.
type Span struct{ From, To time.Time }

// spanSince returns the span to read if points were last read at last. It covers samples that may have become visible
// late, and starts with a whole five-minute interval.
func spanSince(last, now time.Time) Span {
	to := now.Truncate(fineStep)
	from := last.Add(-MaxSampleDelay - coarseStep)
	if oldest := to.Add(-Day); from.Before(oldest) {
		from = oldest
	}
	return Span{From: from.Truncate(coarseStep), To: to}
}

// firstPiece returns the beginning of the span that holds at most the given number of agent-minutes, but at least an
// hour.
func (s Span) firstPiece(agents, minutes int) Span {
	most := max(time.Duration(minutes/max(agents, 1))*fineStep, time.Hour).Truncate(coarseStep)
	if s.To.Sub(s.From) > most {
		s.To = s.From.Add(most)
	}
	return s
}

// AddReading adds a reading to the snapshot. It recomputes the figures as of the end of the span, unless they are
// already of a later time. Adding the same reading again changes nothing.
func (s *Snapshot) AddReading(subject Subject, r Reading, span Span, now time.Time) {
	s.CPU.merge(r.CPU)
	s.Memory.merge(r.Memory)
	s.Requests.merge(r.Requests)
	s.Errors.merge(withZeros(r.Errors, r.Requests))
	s.countRequests(r, span, now)
	at := now
	if span.To.Before(now.Truncate(fineStep)) {
		at = span.To // a piece of the past
	}
	if at.Before(s.CollectedAt) {
		return
	}
	s.addServing(subject.Serving, s.CollectedAt.Truncate(fineStep), span.To)
	s.addRestarts(subject.Restarts, span.To)
	s.CollectedAt = at
	s.computeFigures(subject, r, span.To)
}

// withZeros adds a zero for each minute with requests but without errors. The error counter does not exist before the
// first error.
func withZeros(errors, requests Minutes) Minutes {
	if len(requests) == 0 {
		return errors
	}
	all := make(Minutes, len(requests))
	for end := range requests {
		all[end] = 0
	}
	maps.Copy(all, errors)
	return all
}

// computeFigures computes the figures as of a time.
func (s *Snapshot) computeFigures(subject Subject, r Reading, to time.Time) {
	last := s.Figures.LatencyMillis
	s.Figures = Figures{
		CPUCores: newestFresh(r.CPU, to), MemoryBytes: newestFresh(r.Memory, to),
		PVCPct: scaled(newestFresh(r.Volume, to), 100), LatencyMillis: last,
		UptimePct: s.uptimePct(to), Restarts: s.restarts(to),
	}
	if subject.Limits != nil {
		s.Figures.CPUPct = scaled(s.Figures.CPUCores, 100/subject.Limits.CPUCores())
		s.Figures.MemPct = scaled(s.Figures.MemoryBytes, 100/float64(subject.Limits.MemoryBytes()))
	}
	if !r.LatencyAt.IsZero() {
		s.Figures.LatencyMillis = &r.Latency
	}
}

// newestFresh returns the newest value that is at most MaxSampleAge old, or nil.
func newestFresh(values Minutes, to time.Time) *float64 {
	last := to.Add(-MaxSampleAge).Unix()
	var found *float64
	for end, v := range values {
		if end >= last && end <= to.Unix() {
			last, found = end, &v
		}
	}
	return found
}

// scaled multiplies a value; nil stays nil.
func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	product := *v * by
	return &product
}
