package metrics

import (
	"time"

	"agents.example/controlplane/shared/agent"
)

// Uptime and restarts are facts of the agent's record, which workers learn from the cluster. They do not depend on
// samples: those of an agent that is down are missing as well as those of a source that is.

// replacement is how long the pod of an agent may be replaced by request without counting as downtime.
const replacement = 2 * time.Minute

// addServing counts the seconds of a span in which the agent served, and in which it should have.
func (s *Snapshot) addServing(changes []agent.ServingChange, span Span) {
	if len(changes) == 0 {
		return
	}
	step := int64(coarseStep / time.Second)
	for end := s.Up.slotEnd(span.From.Unix()) + step; end-step < span.To.Unix(); end += step {
		from, to := time.Unix(end-step, 0), time.Unix(min(end, span.To.Unix()), 0)
		up, due := served(changes, from, to)
		at := time.Unix(end, 0)
		knownUp, _ := s.Up.At(at)
		knownDue, known := s.Due.At(at)
		if from.Before(changes[0].Since) { // the record has forgotten what came before
			up, due = max(up, knownUp), max(due, knownDue)
		}
		if due > 0 || known {
			s.Up.Set(at, up)
			s.Due.Set(at, due)
		}
	}
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
	return s.Requests.Day.total(from, until), s.Errors.Day.total(from, until)
}

// total is what the rates per second of the intervals between two times add up to.
func (r Ring) total(from, until time.Time) (total float64) {
	for _, p := range r.Points(from) {
		if p.T+r.step <= until.Unix() {
			total += p.V * float64(r.step)
		}
	}
	return total
}
