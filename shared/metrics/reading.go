package metrics

import (
	"maps"
	"math"
	"time"
)

// Reading is what was read of one agent: values by the minute, and what is one value for a longer time.
type Reading struct {
	CPU, Memory, Uptime, Volume, Requests, Errors Minutes
	// Restarts counts those of the last day.
	Restarts float64
	// Latency is the newest 95th percentile in milliseconds, and LatencyAt when it was measured; zero for never.
	Latency   float64
	LatencyAt time.Time
}

// add puts a sample into the reading. Samples may come in any order. Requests that did not come to the agent's own
// hostname are somebody else's: anybody can write a name into a request.
func (r *Reading) add(m Metric, s Sample, hostname string) {
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) || m.byHost() && s.Host != hostname {
		return
	}
	switch m {
	case Restarts:
		r.Restarts += s.Value
	case Latency:
		// A percentile of no requests is reported as zero; no request takes no time.
		if s.Value > 0 && s.At.After(r.LatencyAt) {
			r.Latency, r.LatencyAt = s.Value, s.At
		}
	default:
		of := map[Metric]*Minutes{
			CPU: &r.CPU, Memory: &r.Memory, Uptime: &r.Uptime, Volume: &r.Volume, Requests: &r.Requests,
			Errors: &r.Errors,
		}[m]
		if of == nil {
			return
		}
		if *of == nil {
			*of = Minutes{}
		}
		(*of)[s.At.Unix()] = s.Value
	}
}

// Span is the time that a reading is about: after From up to To. From begins an interval of five minutes, To ends a
// minute.
type Span struct{ From, To time.Time }

// spanSince is the span that has to be read when points were last read at a time: what may have come late since then is
// in it, and the intervals at its beginning are whole.
func spanSince(last, now time.Time) Span {
	to := now.Truncate(fineStep)
	from := last.Add(-MaxSampleDelay - coarseStep)
	if oldest := to.Add(-Day); from.Before(oldest) {
		from = oldest
	}
	return Span{From: from.Truncate(coarseStep), To: to}
}

// firstPiece is as much of the span as has at most so many minutes of a number of agents, but at least an hour of them.
func (s Span) firstPiece(agents, minutes int) Span {
	most := max(time.Duration(minutes/max(agents, 1))*fineStep, time.Hour).Truncate(coarseStep)
	if s.To.Sub(s.From) > most {
		s.To = s.From.Add(most)
	}
	return s
}

// AddReading puts a reading into the snapshot and computes its figures anew, as of the end of the span, unless they are of a
// later time already. It is pure, and taking the same reading again changes nothing.
func (s *Snapshot) AddReading(of Subject, r Reading, span Span, now time.Time) {
	s.CPU.merge(r.CPU)
	s.Memory.merge(r.Memory)
	s.Requests.merge(r.Requests)
	s.Errors.merge(withZeros(r.Errors, r.Requests))
	s.addUptime(of, r.Uptime, span)
	at := now
	if span.To.Before(now.Truncate(fineStep)) {
		at = span.To // a piece of the past
	}
	if at.Before(s.CollectedAt) {
		return
	}
	s.CollectedAt = at
	s.computeFigures(of, r, span.To)
}

// withZeros adds the minutes in which requests were counted and none of them was an error. A counter of errors does not
// exist before the first one.
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

// addUptime judges the minutes of a span. Since the agent last became ready it should be up: for whole minutes, but
// those of which a sample may still come. Before that, such as when it was paused, or while it started, it may be up,
// and what it was not does not count.
func (s *Snapshot) addUptime(of Subject, uptime Minutes, span Span) {
	minute := int64(fineStep / time.Second)
	certain, ready := span.To.Add(-MaxSampleDelay).Unix(), of.ReadySince.Unix()
	up, due := map[int64]float64{}, map[int64]float64{}
	// A sample says since when the container runs, so that it speaks for the minutes before it, too, also where those
	// have none.
	runsSince := span.To.Unix()
	for end := span.To.Unix(); end > span.From.Unix(); end -= minute {
		age, sampled := uptime[end]
		if sampled {
			runsSince = min(runsSince, end-int64(max(age, 0)))
		}
		ran := float64(min(max(end-runsSince, 0), minute))
		slot := s.Up.slotEnd(end)
		up[slot] += ran
		switch should := !of.ReadySince.IsZero() && end-minute >= ready; {
		case should && (ran > 0 || end <= certain):
			due[slot] += float64(minute)
		default:
			due[slot] += ran
		}
	}
	for slot, seconds := range due {
		if seconds == 0 {
			continue
		}
		at := time.Unix(slot, 0)
		// What was due, or up, once is so for good, also when the agent is ready anew since.
		known, _ := s.Due.At(at)
		s.Due.Set(at, max(known, seconds))
		known, _ = s.Up.At(at)
		s.Up.Set(at, max(known, up[slot]))
	}
}

// computeFigures computes the figures as of a time.
func (s *Snapshot) computeFigures(of Subject, r Reading, to time.Time) {
	last := s.Figures.LatencyMillis
	s.Figures = Figures{
		CPUCores: newestFresh(r.CPU, to), MemoryBytes: newestFresh(r.Memory, to), PVCPct: scaled(newestFresh(r.Volume, to), 100),
		Restarts: r.Restarts, LatencyMillis: last,
	}
	if of.Limits != nil {
		s.Figures.CPUPct = scaled(s.Figures.CPUCores, 100/of.Limits.CPUCores())
		s.Figures.MemPct = scaled(s.Figures.MemoryBytes, 100/float64(of.Limits.MemoryBytes()))
	}
	if due := s.Due.sum(to.Add(-Day)); due > 0 && newestFresh(r.Uptime, to) != nil {
		pct := min(100, 100*s.Up.sum(to.Add(-Day))/due) // the two sums are rounded apart
		s.Figures.UptimePct = &pct
	}
	if !r.LatencyAt.IsZero() {
		s.Figures.LatencyMillis = &r.Latency
	}
}

// newestFresh is the value of the last minute that has one, if it is fresh.
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

func scaled(v *float64, by float64) *float64 {
	if v == nil {
		return nil
	}
	product := *v * by
	return &product
}
