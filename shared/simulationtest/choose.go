package simulationtest

import (
	"time"
)

// pick chooses among parked steps, late effects and actions of the environment, in this order.
func (s *Scheduler) pick(ready []*step, late, environment int) int {
	total := len(ready) + late + environment
	switch {
	case s.Plan != nil:
		return s.Plan.next(ready, late, environment)
	case total == 0:
		return timePasses
	default:
		return s.random.IntN(total)
	}
}

// decide chooses what happens to a parked step.
func (s *Scheduler) decide(chosen *step) {
	p := chosen.process
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.Stalls > 0 && s.random.Float64() < s.StallRate {
		s.Stalls--
		p.stalledUntil = s.Elapsed() + stalls[s.random.IntN(len(stalls))]
		s.record(p.Name, "stalls", "")
		return
	}
	s.steps++
	verdict := Happens
	switch {
	case chosen.ctx.Err() != nil, s.down[chosen.service]:
		verdict = Refused
	case s.Plan != nil:
		verdict = s.Plan.verdict(chosen)
	case s.Faults > 0 && (s.FaultService == nil || *s.FaultService == chosen.service) &&
		s.random.Float64() < s.FaultRate:
		s.Faults--
		verdict = s.Verdicts[s.random.IntN(len(s.Verdicts))]
	}
	s.grant(chosen, verdict)
}

// landRate is how probable it is that a late effect can be chosen. It is low enough that many take place after their
// call has timed out.
const landRate = 0.15

// stalls lists how long a process stalls: beyond a lease, beyond the storing time, beyond a sweep, beyond a deadline.
var stalls = [...]time.Duration{ //nolint:gochecknoglobals // a constant
	6 * time.Second, 6 * time.Second, 16 * time.Second, 31 * time.Second, 61 * time.Second, 11 * time.Minute,
}

// Choose returns a random number below n, or the middle one if a plan replaces chance.
func (s *Scheduler) Choose(n int) int {
	if s.Plan != nil {
		return n / 2
	}
	return s.random.IntN(n)
}

// Chance reports true with a probability, or whether it is likely if a plan replaces chance.
func (s *Scheduler) Chance(probability float64) bool {
	if s.Plan != nil {
		return probability >= 0.5
	}
	return s.random.Float64() < probability
}
