package webhook_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/webhook"
)

// schedule is a world in which processes run concurrently. Each call of a process is a step. The seed chooses which
// step is next, and how it ends, so a seed always gives the same schedule. It must run in a bubble of package synctest.
type schedule struct {
	*world
	random *rand.Rand
	// faults: steps may fail.
	faults bool
	// down: the receivers refuse everything.
	down bool
	// violation is the first promise that was broken.
	violation string
	// queue are the nudges that were published and not delivered.
	queue []string
	hooks map[string]*hook
	// servers commit events. Each remembers which webhooks there are.
	servers []*webhook.Notifier
	// swept is when the last sweep began.
	swept time.Time

	steps     sync.Mutex // guards what follows
	parked    []*step
	processes []*process
	live      int
	granted   int
	// keep makes trace list what happens.
	keep  bool
	trace []string
}

// process is a delivery of a nudge, a sweep, or a server. After its death its steps have no effect.
type process struct {
	*schedule
	name string
	end  context.CancelFunc
	// skew is how much its clock is ahead.
	skew time.Duration
	dead bool
	// server: it commits events, and does not die.
	server bool
	// clean: it began when there were no more faults.
	clean bool
}

// step is a call that waits to be granted, but not before a time.
type step struct {
	process *process
	name    string
	from    time.Time
	verdict chan verdict
}

// verdict is how a step ends.
type verdict string

const (
	happens    verdict = ""
	refused    verdict = "refused"
	answerLost verdict = "answer lost"
	diesBefore verdict = "dies before"
	diesAfter  verdict = "dies after"
)

var errStep = fault.New(fault.Unavailable, "store_unavailable", "the step failed")

func (s *schedule) chance(p float64) bool { return s.random.Float64() < p }

func (s *schedule) note(format string, args ...any) {
	if !s.keep {
		return
	}
	s.trace = append(s.trace, s.now.Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (s *schedule) violate(format string, args ...any) {
	if s.violation == "" {
		s.violation = fmt.Sprintf(format, args...)
	}
}

// start starts a process.
func (s *schedule) start(kind string, run func(ctx context.Context, p *process) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{
		schedule: s, name: fmt.Sprintf("%s %d", kind, len(s.processes)), end: cancel, clean: !s.faults,
	}
	if s.faults && s.chance(0.2) {
		p.skew = time.Duration(s.random.IntN(100)-50) * time.Second
	}
	s.processes = append(s.processes, p)
	s.run(p, func() error {
		defer cancel()
		return run(ctx, p)
	})
}

// run makes a process do something.
func (s *schedule) run(p *process, do func() error) {
	s.note("%s begins", p.name)
	s.live++
	go func() {
		growStack()
		err := do()
		s.steps.Lock()
		defer s.steps.Unlock()
		s.live--
		s.note("%s ends: %v", p.name, err)
		if err != nil && p.clean {
			s.violate("fault: %s failed without one: %v", p.name, err)
		}
	}()
	synctest.Wait()
}

// growStack makes the stack of a goroutine as large as processes need it, while it is nearly empty and cheap to move.
//
//go:noinline
func growStack() byte {
	var frame [12 << 10]byte
	return frame[len(os.Args)]
}

// stop ends all processes.
func (s *schedule) stop() {
	for _, p := range s.processes {
		p.dead = true
	}
	for s.grantOne() {
	}
}

// deliver starts a worker that a nudge reaches.
func (s *schedule) deliver(id string) {
	s.start("worker", func(ctx context.Context, p *process) error {
		d := s.deliverer()
		d.Store, d.Events, d.Sender, d.Nudger, d.Now = p, p, p, p, p.clock
		d.Random = func() float64 { return s.random.Float64() }
		d.Wait = func(ctx context.Context, long time.Duration) error {
			return p.stepFrom(ctx, s.now.Add(long), "wait", func() error { return nil })
		}
		return d.Deliver(ctx, id)
	})
}

func (s *schedule) sweep() {
	s.swept = s.now
	s.start("sweep", func(ctx context.Context, p *process) error {
		return (&webhook.Sweeper{Store: p, Nudger: p, Now: p.clock}).Sweep(ctx)
	})
}

// grantOne lets one step happen. It reports false if no process can go on before time passes.
func (s *schedule) grantOne() bool {
	synctest.Wait()
	s.steps.Lock()
	// Goroutines that began together park in any order.
	slices.SortStableFunc(s.parked, func(a, b *step) int {
		return cmp.Or(cmp.Compare(a.process.name, b.process.name), cmp.Compare(a.name, b.name))
	})
	var ready []*step
	for _, st := range s.parked {
		if !st.from.After(s.now) || st.process.dead {
			ready = append(ready, st)
		}
	}
	if len(ready) == 0 {
		s.steps.Unlock()
		return false
	}
	st := ready[s.random.IntN(len(ready))]
	s.parked = slices.DeleteFunc(s.parked, func(other *step) bool { return other == st })
	v := happens
	if s.faults && s.chance(0.04) {
		v = []verdict{refused, refused, answerLost, diesBefore, diesAfter}[s.random.IntN(5)]
		if st.process.server {
			v = refused
		}
	}
	s.note("%s: %s %s", st.process.name, st.name, v)
	if s.granted++; s.granted > 50_000 {
		s.violate("rest: the processes go on after %d steps", s.granted)
	}
	s.steps.Unlock()
	st.verdict <- v
	synctest.Wait()
	return true
}

func (p *process) step(ctx context.Context, name string, do func() error) error {
	return p.stepFrom(ctx, time.Time{}, name, do)
}

func (p *process) stepFrom(ctx context.Context, from time.Time, name string, do func() error) error {
	st := &step{process: p, name: name, from: from, verdict: make(chan verdict, 1)}
	p.steps.Lock()
	p.parked = append(p.parked, st)
	p.steps.Unlock()
	v := <-st.verdict
	if err := ctx.Err(); err != nil || p.dead {
		return cmp.Or(err, error(errStep))
	}
	switch v {
	case happens:
		return do()
	case answerLost, diesAfter:
		_ = do()
	}
	if v == diesBefore || v == diesAfter {
		p.dead = true
		p.end()
	}
	return errStep
}

func (p *process) clock() time.Time { return p.world.clock().Add(p.skew) }

// Load implements webhook.WorkerStore.
func (p *process) Load(ctx context.Context, id string) (w webhook.Webhook, err error) {
	err = p.step(ctx, "load", func() (err error) { w, err = p.world.Load(ctx, id); return err })
	return w, err
}

// Update implements webhook.WorkerStore. A webhook is disabled in one commit with the event about it.
func (p *process) Update(ctx context.Context, old webhook.Webhook, done webhook.Done,
	change func(*webhook.Webhook) error,
) (w webhook.Webhook, err error) {
	err = p.step(ctx, "update", func() (err error) {
		before, _ := p.get(old.ID)
		w, err = p.world.Update(ctx, old, done, change)
		disabled := err == nil && before.Status == webhook.Enabled && w.Status == webhook.Disabled
		if wrote := err == nil && len(done.Events) > 0; wrote != disabled {
			p.violate("event: disabled by the commit %t (%s), with an event %t", disabled, w.DisabledReason, wrote)
		}
		return err
	})
	if err != nil {
		return webhook.Webhook{}, err
	}
	return w, nil
}

// LoadDeliveries implements webhook.WorkerStore.
func (p *process) LoadDeliveries(ctx context.Context, ids ...string) (found map[string]webhook.Delivery, err error) {
	err = p.step(ctx, fmt.Sprint("load ", ids), func() (err error) {
		found, err = p.world.LoadDeliveries(ctx, ids...)
		return err
	})
	return found, err
}

// ListDue implements webhook.WorkerStore.
func (p *process) ListDue(ctx context.Context, now time.Time, limit int) (ids []string, err error) {
	err = p.step(ctx, "list due", func() (err error) { ids, err = p.world.ListDue(ctx, now, limit); return err })
	return ids, err
}

// ListEnabled implements webhook.WorkerStore.
func (p *process) ListEnabled(ctx context.Context, organizationID string) (ids []string, err error) {
	err = p.step(ctx, "list enabled", func() (err error) {
		ids, err = p.world.ListEnabled(ctx, organizationID)
		return err
	})
	return ids, err
}

// List implements webhook.Events. Its pages are short.
func (p *process) List(ctx context.Context, organizationID string, f event.Filter, after event.ID, limit int) (
	b event.Batch, err error,
) {
	err = p.step(ctx, "list "+f.AgentID, func() (err error) {
		b, err = p.world.List(ctx, organizationID, f, after, 1+p.random.IntN(min(limit, 6)))
		return err
	})
	return b, err
}

// Get implements webhook.Events.
func (p *process) Get(ctx context.Context, organizationID string, id event.ID) (e event.Event, err error) {
	err = p.step(ctx, "get "+string(id), func() (err error) {
		e, err = p.world.Get(ctx, organizationID, id)
		return err
	})
	return e, err
}

// NudgeWebhook implements webhook.Nudger. A nudge may be published twice.
func (p *process) NudgeWebhook(ctx context.Context, id string) error {
	return p.step(ctx, "nudge "+id, func() error {
		p.queue = append(p.queue, id)
		if p.faults && p.chance(0.1) {
			p.queue = append(p.queue, id)
		}
		return nil
	})
}

// Send implements webhook.Sender.
func (p *process) Send(ctx context.Context, m webhook.Message) (result webhook.Result) {
	result.Reason = webhook.ReasonTimeout
	err := p.step(ctx, "send "+m.ID+" to "+m.URL, func() error {
		switch {
		case p.down, p.faults && p.chance(0.2):
			result = withStatus(503)
			if p.chance(0.1) {
				result.RetryAfter = 20 * time.Minute
			}
		case p.faults && p.chance(0.02):
			result = withStatus(410)
		default:
			p.hooks[m.URL].take(event.ID(m.ID), p.now)
			if result = (webhook.Result{HTTPStatus: 200}); p.faults && p.chance(0.1) {
				result = webhook.Result{Reason: webhook.ReasonTimeout} // the answer was too late
			}
			return nil
		}
		p.note("the receiver refuses: %d", result.HTTPStatus)
		return nil
	})
	if err != nil { // also if the receiver took the message
		return webhook.Result{Reason: webhook.ReasonTimeout}
	}
	return result
}
