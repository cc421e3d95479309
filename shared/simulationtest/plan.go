package simulationtest

import (
	"slices"
	"testing/synctest"
)

// Plan replaces chance in a schedule, so that schedules can be enumerated. Without deviations, the process that made
// the last step continues until it waits, every step happens, and late effects take place as late as possible.
type Plan struct {
	// Deviations are the decisions that differ from that, in order.
	Deviations []Deviation
	// Made lists the decisions of the schedule.
	Made []Decision

	followed int
	current  *Process
	closed   bool
}

// Decision is a point at which a schedule can go on in different ways.
type Decision struct {
	Kind Kind
	// Possibilities is how many ways there are.
	Possibilities int
}

// Kind is what a decision is about.
type Kind uint

// The kinds of decisions.
const (
	// Order decides what happens next.
	Order Kind = 1 << iota
	// Outcome decides how a step ends.
	Outcome
)

// Deviation takes another than the first possibility.
type Deviation struct {
	// Decision is the number of the decision.
	Decision, Choice int
}

// choose makes the next decision.
func (p *Plan) choose(kind Kind, possibilities int) int {
	if p.closed {
		return 0
	}
	number := len(p.Made)
	p.Made = append(p.Made, Decision{kind, possibilities})
	if p.followed < len(p.Deviations) && p.Deviations[p.followed].Decision == number {
		p.followed++
		return p.Deviations[p.followed-1].Choice
	}
	return 0
}

// close ends the part of the schedule that can deviate.
func (p *Plan) close() {
	if p != nil {
		p.closed = true
	}
}

// timePasses is the choice that no possibility happens yet.
const timePasses = -1

// next chooses among parked steps, late effects and actions of the environment, in this order.
func (p *Plan) next(ready []*step, late, environment int) int {
	if i := slices.IndexFunc(ready, func(s *step) bool { return s.process == p.current }); i > 0 {
		ready[0], ready[i] = ready[i], ready[0]
	}
	now := len(ready) + environment
	if now == 0 {
		if late == 0 {
			return timePasses
		}
		if n := p.choose(Order, 1+late); n > 0 {
			return n - 1
		}
		return timePasses
	}
	n := p.choose(Order, now+late)
	switch {
	case n < len(ready):
		p.current = ready[n].process
		return n
	case n < now:
		return n + late
	default:
		return n - environment
	}
}

// verdict chooses how a step ends. A read without an answer had no effect, whatever became of it.
func (p *Plan) verdict(s *step) Verdict {
	verdicts := [...]Verdict{Happens, Refused, Late, CrashesBefore, Lost, CrashesAfter}
	if s.reads {
		return verdicts[p.choose(Outcome, 4)]
	}
	return verdicts[p.choose(Outcome, len(verdicts))]
}

// playPlan runs the part of a planned schedule that can deviate, until only the sweep would continue it.
func (w *World) playPlan() {
	for w.steps < w.setup.Steps && w.violation == "" {
		if !w.Next(w.environment()) {
			if w.live == 0 && len(w.late) == 0 && len(w.Queue.messages) == 0 && len(w.Queue.dead) == 0 {
				return
			}
			w.Pass(w.untilNext())
		}
		synctest.Wait()
		w.check()
	}
}
