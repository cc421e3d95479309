package simulation

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// Scheduler decides which process continues, and what happens to its step. It must run in a bubble of package synctest.
type Scheduler struct {
	random *rand.Rand
	// Faults is how many more steps may fail.
	Faults int
	// FaultRate is the share of the steps that fail while Faults is not 0.
	FaultRate float64
	// FaultService is the only service whose steps fail; nil for all.
	FaultService *Service
	// Verdicts are the faults to choose from.
	Verdicts []Verdict
	// Stalls is how many more times a process may stall, and StallRate the share of the steps at which one does.
	Stalls    int
	StallRate float64
	// Plan decides instead of chance.
	Plan *Plan
	// steps counts the granted steps.
	steps int

	began  time.Time
	jumped time.Duration
	// skew is that of the next process.
	skew time.Duration
	down [services]bool

	mu        sync.Mutex
	parked    []*step
	late      []effect
	live      int
	arrived   chan struct{}
	processes []*Process

	sum   uint64
	trace []row
	// Keep makes the scheduler keep the trace.
	Keep bool
}

// epoch is the time at which every schedule begins.
var epoch = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// step is a call of a process that waits for the scheduler.
type step struct {
	process *Process
	service Service
	name    string
	ctx     context.Context //nolint:containedctx // only its end is of interest
	verdict chan Verdict
	// reads: it has no effect unless it succeeds.
	reads bool
}

// effect is something that takes place later than its call ended.
type effect struct {
	process string
	name    string
	do      func()
	landBy  time.Duration
	// exact: it takes place at landBy, not before.
	exact bool
}

// NewScheduler returns the scheduler of a seed.
func NewScheduler(seed uint64) *Scheduler {
	return &Scheduler{
		random: rand.New(rand.NewPCG(seed, seed)), //nolint:gosec // chooses schedules
		began:  time.Now(), arrived: make(chan struct{}, 1), Verdicts: Faults(), sum: offset,
	}
}

// Elapsed is the time since the schedule began.
func (s *Scheduler) Elapsed() time.Duration { return time.Since(s.began) }

// Now is the clock that the control plane's processes share, apart from their skew.
func (s *Scheduler) Now() time.Time { return epoch.Add(s.Elapsed() + s.jumped) }

// Jump moves the clock forward without time passing, as a correction by a time server does.
func (s *Scheduler) Jump(d time.Duration) { s.jumped += d }

// SetDown begins or ends the outage of a service: all steps that call it fail.
func (s *Scheduler) SetDown(service Service, down bool) { s.down[service] = down }

// Idle reports whether no process runs and no effect is outstanding.
func (s *Scheduler) Idle() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live == 0 && len(s.late) == 0
}

// Pass lets time pass until a process makes a step, but at most d.
func (s *Scheduler) Pass(d time.Duration) {
	s.mu.Lock()
	for _, e := range s.late {
		d = min(d, max(0, e.landBy-s.Elapsed()))
	}
	s.mu.Unlock()
	select {
	case <-s.arrived:
	default:
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-s.arrived:
	case <-timer.C:
	}
	s.record("clock", "time passes", "")
}

// Next lets one parked step, one late effect or one of the environment's actions happen. It reports false if there is
// none: then only time can pass.
func (s *Scheduler) Next(environment []Action) bool {
	synctest.Wait()
	s.mu.Lock()
	// Goroutines that a timer woke park in any order.
	slices.SortStableFunc(s.parked, func(x, y *step) int {
		return cmp.Or(strings.Compare(x.process.Name, y.process.Name), strings.Compare(x.name, y.name))
	})
	ready := s.parked[:0:0]
	now := s.Elapsed()
	for _, waiting := range s.parked {
		if waiting.process.crashed {
			s.grant(waiting, CrashesBefore)
			s.mu.Unlock()
			return true
		}
		if waiting.process.stalledUntil <= now {
			ready = append(ready, waiting)
		}
	}
	var late []int
	for i, e := range s.late {
		if e.landBy <= now {
			s.land(i)
			return true
		}
		if !e.exact && (s.Plan != nil || s.random.Float64() < landRate) {
			late = append(late, i)
		}
	}
	s.mu.Unlock()
	switch n := s.pick(ready, len(late), len(environment)); {
	case n == timePasses:
		return false
	case n < len(ready):
		s.decide(ready[n])
	case n < len(ready)+len(late):
		s.mu.Lock()
		s.land(late[n-len(ready)])
	default:
		action := environment[n-len(ready)-len(late)]
		s.record("environment", action.Name, Verdict(action.Object))
		action.Do()
	}
	return true
}

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

// land makes the late effect i happen. The caller holds the lock, which land releases.
func (s *Scheduler) land(i int) {
	e := s.late[i]
	s.late = slices.Delete(slices.Clone(s.late), i, i+1)
	s.mu.Unlock()
	s.record(e.process, e.name, "lands late")
	e.do()
}

// Action is something that the environment may do at any time, such as a container restart.
type Action struct {
	Name string
	// Object is what the action is about, such as an agent.
	Object string
	Do     func()
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

// grant gives a parked step its verdict. The caller holds the lock.
func (s *Scheduler) grant(chosen *step, verdict Verdict) {
	i := slices.Index(s.parked, chosen)
	s.parked = slices.Delete(s.parked, i, i+1)
	s.record(chosen.process.Name, chosen.name, verdict)
	chosen.verdict <- verdict
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

// Stop ends all processes. They have no further effect, and neither have late effects.
func (s *Scheduler) Stop() {
	s.mu.Lock()
	s.late = nil
	for _, p := range s.processes {
		p.crashed = true
		p.cancel()
	}
	s.mu.Unlock()
	for !s.Idle() {
		if !s.Next(nil) {
			s.Pass(time.Minute)
		}
	}
}
