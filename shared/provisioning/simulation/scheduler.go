// Package simulation runs the control plane's own code against a simulated outside: in one process, on a virtual clock,
// with every interleaving, failure and delay chosen by a seed. It implements the ports of the domain. It does not test
// the adapters in infra; the conformance suites of the ports hold for both.
package simulation

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// Verdict is what happens to one step of a process.
type Verdict string

// The verdicts.
const (
	// Happens: the effect takes place, and the process gets the answer.
	Happens Verdict = "happens"
	// Refused: the effect does not take place, and the process gets an error.
	Refused Verdict = "refused"
	// Lost: the effect takes place, and the process gets an error instead of the answer.
	Lost Verdict = "lost"
	// Late: the process gets an error when its call times out. The effect takes place later.
	Late Verdict = "late"
	// CrashesBefore: the process ends before the effect.
	CrashesBefore Verdict = "crashes before"
	// CrashesAfter: the process ends after the effect.
	CrashesAfter Verdict = "crashes after"
)

// faults lists the verdicts that are no success.
func faults() []Verdict { return []Verdict{Refused, Lost, Late, CrashesBefore, CrashesAfter} }

// callTimeout is how long a call may take, as in the adapters.
const callTimeout = 10 * time.Second

// Error is the answer to a step that failed. Adapters make the fault of their port from it.
type Error struct {
	Verdict Verdict
	Step    string
}

// Error implements error.
func (e *Error) Error() string { return e.Step + ": " + string(e.Verdict) }

// Scheduler decides which process goes on, and what happens to its step. It must run in a bubble of package synctest.
type Scheduler struct {
	random *rand.Rand
	// Faults is how many more steps may fail.
	Faults int
	// FaultRate is the share of the steps that fail while Faults is not 0.
	FaultRate float64

	mu     sync.Mutex
	parked []*step
	late   []effect
	live   int

	trace []string
	sum   uint64
	// Keep makes the scheduler keep the trace.
	Keep bool
}

// step is a call of a process that waits for the scheduler.
type step struct {
	process *Process
	name    string
	verdict chan Verdict
}

// effect is something that can take place at any time.
type effect struct {
	name string
	do   func()
}

// NewScheduler returns the scheduler of a seed.
func NewScheduler(seed uint64) *Scheduler {
	return &Scheduler{random: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // chooses schedules
}

// Process is a process of the control plane, such as one delivery to a worker. After its crash, none of its steps has an
// effect.
type Process struct {
	Name string
	// Skew is how much the process's clock is ahead.
	Skew time.Duration

	scheduler *Scheduler
	cancel    context.CancelFunc
	crashed   bool
}

// Now is the process's clock.
func (p *Process) Now() time.Time { return time.Now().Add(p.Skew) }

// Crashed reports whether the process crashed.
func (p *Process) Crashed() bool { return p.crashed }

// Go starts a process. The context ends when the process crashes.
func (s *Scheduler) Go(name string, run func(ctx context.Context, p *Process)) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{Name: name, scheduler: s, cancel: cancel}
	s.live++
	go func() {
		defer cancel()
		run(ctx, p)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.live--
	}()
	return p
}

// Step makes a call outside: it waits for the scheduler, which decides what happens to the effect do.
func (p *Process) Step(ctx context.Context, name string, do func() error) error {
	s := p.scheduler
	waiting := &step{process: p, name: name, verdict: make(chan Verdict, 1)}
	s.mu.Lock()
	if p.crashed || ctx.Err() != nil {
		s.mu.Unlock()
		return &Error{Verdict: CrashesBefore, Step: name}
	}
	s.parked = append(s.parked, waiting)
	s.mu.Unlock()
	verdict := <-waiting.verdict
	switch verdict {
	case Happens:
		return do()
	case Lost:
		_ = do()
	case CrashesAfter:
		_ = do()
		p.crash()
	case CrashesBefore:
		p.crash()
	case Late:
		s.mu.Lock()
		s.late = append(s.late, effect{p.Name + ": " + name, func() { _ = do() }})
		s.mu.Unlock()
		timeout := time.NewTimer(callTimeout)
		defer timeout.Stop()
		select {
		case <-timeout.C:
		case <-ctx.Done():
		}
	case Refused:
	}
	return &Error{Verdict: verdict, Step: name}
}

func (p *Process) crash() {
	p.scheduler.mu.Lock()
	p.crashed = true
	p.scheduler.mu.Unlock()
	p.cancel()
}

// Idle reports whether no process runs and no effect is outstanding.
func (s *Scheduler) Idle() bool {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live == 0 && len(s.late) == 0
}

// Pass lets the time pass.
func (s *Scheduler) Pass(d time.Duration) {
	s.record("%v pass", d)
	time.Sleep(d) //nolint:forbidigo // on the bubble's clock
}

// Next lets one parked step, one late effect or one of the environment's actions happen. It reports false if there is
// none: then only time can go on.
func (s *Scheduler) Next(environment []Action) bool {
	synctest.Wait()
	s.mu.Lock()
	// Goroutines that a timer woke park in any order.
	slices.SortStableFunc(s.parked, func(x, y *step) int {
		return cmp.Or(strings.Compare(x.process.Name, y.process.Name), strings.Compare(x.name, y.name))
	})
	parked, late := s.parked, s.late
	s.mu.Unlock()
	total := len(parked) + len(late) + len(environment)
	if total == 0 {
		return false
	}
	switch n := s.random.IntN(total); {
	case n < len(parked):
		s.grant(n)
	case n < len(parked)+len(late):
		n -= len(parked)
		s.mu.Lock()
		s.late = slices.Delete(slices.Clone(late), n, n+1)
		s.mu.Unlock()
		s.record("%s lands late", late[n].name)
		late[n].do()
	default:
		action := environment[n-len(parked)-len(late)]
		s.record("%s", action.Name)
		action.Do()
	}
	return true
}

// Action is something that the environment may do at any time, such as a container restart.
type Action struct {
	Name string
	Do   func()
}

// grant decides about the parked step n.
func (s *Scheduler) grant(n int) {
	s.mu.Lock()
	granted := s.parked[n]
	s.parked = slices.Delete(s.parked, n, n+1)
	verdict := Happens
	switch {
	case granted.process.crashed:
		verdict = CrashesBefore
	case s.Faults > 0 && s.random.Float64() < s.FaultRate:
		s.Faults--
		verdict = faults()[s.random.IntN(len(faults()))]
	}
	s.mu.Unlock()
	s.record("%s: %s %s", granted.process.Name, granted.name, verdict)
	granted.verdict <- verdict
}

// Choose returns a random number below n.
func (s *Scheduler) Choose(n int) int { return s.random.IntN(n) }

// record adds to the trace and to the sum that tells schedules apart.
func (s *Scheduler) record(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s", s.sum, line) // a hash takes everything
	s.sum = h.Sum64()
	if s.Keep {
		s.trace = append(s.trace, time.Now().UTC().Format("15:04:05.000 ")+line)
	}
}

// Sum is equal for equal schedules.
func (s *Scheduler) Sum() uint64 { return s.sum }

// Trace is the schedule in lines.
func (s *Scheduler) Trace() string { return strings.Join(s.trace, "\n") }
