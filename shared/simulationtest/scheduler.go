package simulationtest

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
	unused    []*step // to be used again
	late      []effect
	live      int
	arrived   chan struct{}
	processes []*Process
	idle      []chan func() // goroutines without a process

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
	// object is what the step is about, if the process makes the same step concurrently about several.
	object  string
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
		return cmp.Or(strings.Compare(x.process.Name, y.process.Name), strings.Compare(x.name, y.name),
			strings.Compare(x.object, y.object))
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

// grant gives a parked step its verdict. The caller holds the lock.
func (s *Scheduler) grant(chosen *step, verdict Verdict) {
	i := slices.Index(s.parked, chosen)
	s.parked = slices.Delete(s.parked, i, i+1)
	s.record(chosen.process.Name, chosen.name, verdict)
	chosen.verdict <- verdict
}

// Stop ends all processes and their goroutines. They have no further effect, and neither have late effects.
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, work := range s.idle {
		close(work)
	}
	s.idle = nil
}
