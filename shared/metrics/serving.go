package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// Uptime and restarts are facts of the agent's record, which workers learn from the cluster. They do not depend on
// samples: those of an agent that is down are missing as well as those of a source that is.

// replacement is how long the pod of an agent may be replaced by request without counting as downtime.
const replacement = 2 * time.Minute

// addServing counts the seconds of the last day in which the agent served, and in which it should have. It counts them
// all again, because a change may be recorded long after it happened. Of what the record has forgotten, the snapshot
// keeps what it had counted up to a time.
func (s *Snapshot) addServing(changes []agent.ServingChange, counted, to time.Time) {
	if len(changes) == 0 {
		return
	}
	oldest := changes[0].Since
	from := time.Unix(to.Add(-Day).Unix(), 0)
	if from.Before(oldest) {
		from = oldest
	}
	step := int64(coarseStep / time.Second)
	for end := s.Due.slotEnd(from.Unix() + 1); end-step < to.Unix(); end += step {
		begin, end := time.Unix(end-step, 0), time.Unix(min(end, to.Unix()), 0)
		up, due := served(changes, begin, end)
		if begin.Before(oldest) {
			knownUp, knownDue := s.forgotten(changes, begin, counted)
			up, due = up+knownUp, due+knownDue
		}
		if _, known := s.Due.At(end); due > 0 || known {
			s.Up.Set(end, up)
			s.Due.Set(end, due)
		}
	}
}

// forgotten returns what was counted in the interval that begins at a time, without what the record still knows.
func (s *Snapshot) forgotten(changes []agent.ServingChange, begin, counted time.Time) (up, due float64) {
	at := begin.Add(coarseStep)
	up, _ = s.Up.At(at)
	due, _ = s.Due.At(at)
	if counted.Before(at) {
		at = counted
	}
	againUp, againDue := served(changes, begin, at)
	before := max(0, changes[0].Since.Sub(begin).Seconds())
	due = min(max(0, due-againDue), before)
	return min(max(0, up-againUp), due), due
}

// served returns the seconds of an interval in which an agent served, and in which it should have.
func served(changes []agent.ServingChange, from, to time.Time) (up, due float64) {
	for i, c := range changes {
		begin, end := c.Since, to
		if i+1 < len(changes) && changes[i+1].Since.Before(to) {
			end = changes[i+1].Since
		}
		if c.Serving == agent.Replacing {
			begin = begin.Add(replacement)
		}
		if begin.Before(from) {
			begin = from
		}
		seconds := end.Sub(begin).Seconds()
		if seconds <= 0 || c.Serving == agent.Idle {
			continue
		}
		due += seconds
		if c.Serving == agent.Up {
			up += seconds
		}
	}
	return up, due
}

// uptimePct is the time that the agent served in the day before a time, in percent of the time that it should have; nil
// if it was not meant to serve.
func (s Snapshot) uptimePct(now time.Time) *float64 {
	due := s.Due.sum(now.Add(-Day))
	if due == 0 {
		return nil
	}
	return new(100 * (s.Up.sum(now.Add(-Day)) / due)) // 100 * x / x may exceed 100
}

// restarts is how often the container was started again in the day before a time.
func (s Snapshot) restarts(now time.Time) float64 { return s.Restarted.sum(now.Add(-Day)) }

// addRestarts counts the restarts since the snapshot was last written.
func (s *Snapshot) addRestarts(total int64, to time.Time) {
	if total == s.RestartsSeen {
		return
	}
	known, _ := s.Restarted.At(to)
	s.Restarted.Set(to, known+float64(max(0, total-s.RestartsSeen)))
	s.RestartsSeen = total
}

// Served returns how many requests the agent served between two times, and how many of them failed, as far as the
// snapshot knows them: in steps of five minutes.
func (s Snapshot) Served(from, until time.Time) (requests, failed float64) {
	seconds := coarseStep.Seconds() // of which the series have rates
	return seconds * s.Requests.Day.sumBetween(from, until), seconds * s.Errors.Day.sumBetween(from, until)
}

// RestartsBetween returns how often the container was started again between two times, as Served does.
func (s Snapshot) RestartsBetween(from, until time.Time) float64 {
	return s.Restarted.sumBetween(from, until)
}

// sumBetween adds the values of the intervals between two times.
func (r Ring) sumBetween(from, until time.Time) (total float64) {
	for _, p := range r.Points(from) {
		if p.T+r.step <= until.Unix() {
			total += p.V
		}
	}
	return total
}
