package simulationtest

import (
	"context"
	"os"
	"strings"
	"time"
)

// Process is a process of the control plane, such as one delivery to a worker. After its crash, none of its steps has
// an effect.
type Process struct {
	Name string
	// Skew is how much the process's clock is ahead.
	Skew time.Duration

	scheduler *Scheduler
	cancel    context.CancelFunc
	crashed   bool
	// parked is how long the process waited for the scheduler, waiting counts its calls that do, and parkedAt is when
	// the first of them began.
	parked, parkedAt time.Duration
	waiting          int
	// applied counts the objects that the process tried to apply.
	applied      int
	stalledUntil time.Duration
}

// Stepper lets a process make a call outside. A Process leaves the decision about it to the scheduler.
type Stepper interface {
	// Step makes a call that has an effect.
	Step(ctx context.Context, service Service, name string, do func() error) error
	// Look makes a call that only reads.
	Look(ctx context.Context, service Service, name string, do func() error) error
	// About is a Stepper for calls that the process makes concurrently about several objects.
	About(object string) Stepper
	Now() time.Time
}

// about makes the calls of a process about one object.
type about struct {
	*Process
	object string
}

// About implements Stepper. The object must be the same whenever a schedule is repeated.
func (p *Process) About(object string) Stepper { return about{p, object} }

// Step implements Stepper.
func (a about) Step(ctx context.Context, service Service, name string, do func() error) error {
	return a.step(ctx, service, name, do, do)
}

// Look implements Stepper.
func (a about) Look(ctx context.Context, service Service, name string, do func() error) error {
	return a.step(ctx, service, name, do, nil)
}

// Now is the process's clock.
func (p *Process) Now() time.Time { return p.scheduler.Now().Add(p.Skew) }

// Crashed reports whether the process crashed.
func (p *Process) Crashed() bool { return p.crashed }

// Go starts a process. The context ends when the process crashes.
func (s *Scheduler) Go(name string, run func(ctx context.Context, p *Process)) *Process {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Process{Name: name, Skew: s.skew, scheduler: s, cancel: cancel}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live++
	s.processes = append(s.processes, p)
	if len(s.idle) == 0 {
		s.idle = append(s.idle, s.hire())
	}
	last := len(s.idle) - 1
	s.idle[last] <- func() {
		run(ctx, p)
		cancel()
	}
	s.idle = s.idle[:last]
	return p
}

// hire starts a goroutine that runs one process after the other, so that its stack stays as large as processes need it.
func (s *Scheduler) hire() chan func() {
	work := make(chan func(), 1)
	go func() {
		growStack()
		for run := range work {
			run()
			s.mu.Lock()
			s.live--
			s.idle = append(s.idle, work)
			s.arrive()
			s.mu.Unlock()
		}
	}()
	return work
}

// growStack makes the stack of a goroutine as large as processes need it. While the stack is nearly empty, that takes
// much less time than several times later.
//
//go:noinline
func growStack() byte {
	var frame [24 << 10]byte
	return frame[len(os.Args)]
}

// arrive ends Pass. The caller holds the lock.
func (s *Scheduler) arrive() {
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

// Step makes a call outside: it waits for the scheduler, which decides what happens to the effect do. A call whose
// context ended before has no effect.
func (p *Process) Step(ctx context.Context, service Service, name string, do func() error) error {
	return about{Process: p}.step(ctx, service, name, do, do)
}

// Look makes a call outside that only reads: it has no effect unless it succeeds.
func (p *Process) Look(ctx context.Context, service Service, name string, do func() error) error {
	return about{Process: p}.step(ctx, service, name, do, nil)
}

// step makes a call. effect is what it does even if its answer is lost.
func (a about) step(ctx context.Context, service Service, name string, do, effect func() error) error {
	p, s := a.Process, a.scheduler
	s.mu.Lock()
	if p.crashed {
		s.mu.Unlock()
		return &Error{Verdict: CrashesBefore, Step: name}
	}
	waiting := s.newStep()
	waiting.process, waiting.service, waiting.name, waiting.object = p, service, name, a.object
	waiting.ctx, waiting.reads = ctx, effect == nil
	s.parked = append(s.parked, waiting)
	if p.waiting++; p.waiting == 1 {
		p.parkedAt = s.Elapsed()
	}
	s.arrive()
	s.mu.Unlock()
	verdict := <-waiting.verdict
	s.mu.Lock()
	if p.waiting--; p.waiting == 0 {
		p.parked += s.Elapsed() - p.parkedAt
	}
	if service == ClusterService && strings.HasPrefix(name, "apply ") {
		p.applied++
	}
	s.unused = append(s.unused, waiting)
	s.mu.Unlock()
	switch verdict {
	case Happens:
		return do()
	case Lost:
		if effect != nil {
			_ = effect()
		}
	case CrashesAfter:
		if effect != nil {
			_ = effect()
		}
		p.crash()
	case CrashesBefore:
		p.crash()
	case Late:
		p.delay(ctx, service, name, effect)
	case Refused:
	}
	return &Error{Verdict: verdict, Step: name}
}

// newStep returns a step that no process uses. The caller holds the lock.
func (s *Scheduler) newStep() *step {
	if last := len(s.unused) - 1; last >= 0 {
		found := s.unused[last]
		s.unused = s.unused[:last]
		return found
	}
	return &step{verdict: make(chan Verdict, 1)}
}

// delay makes the effect happen after the call has ended.
func (p *Process) delay(ctx context.Context, service Service, name string, do func() error) {
	s := p.scheduler
	ends := s.Elapsed() + callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		ends = min(ends, s.Elapsed()+time.Until(deadline))
	}
	if do != nil {
		s.mu.Lock()
		s.late = append(s.late, effect{
			process: p.Name, name: name, do: func() { _ = do() }, landBy: ends + service.lateness(),
		})
		s.mu.Unlock()
	}
	timeout := time.NewTimer(callTimeout) // not until ends: which of two timers is first would be chance
	defer timeout.Stop()
	select {
	case <-timeout.C:
	case <-ctx.Done():
	}
}

func (p *Process) crash() {
	p.scheduler.mu.Lock()
	p.crashed = true
	p.scheduler.mu.Unlock()
	p.cancel()
}
