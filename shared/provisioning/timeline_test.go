package provisioning_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

// The production values of the queue and the worker.
const (
	minBackoff    = 10 * time.Second
	maxBackoff    = 600 * time.Second
	maxDeliveries = 20
	watchTimeout  = 8 * time.Minute
)

// timeline runs one agent with a queue, concurrent workers and a sweep each minute, in the bubble's time.
type timeline struct {
	agent.WorkerStore // the methods that workers and the sweep do not call
	ctx               context.Context
	done              sync.WaitGroup

	mu  sync.Mutex // guards all below
	sim *simulation
	// clusterDown and databaseDown make every call fail.
	clusterDown, databaseDown bool
	// applyError is what every Apply answers; nil for success.
	applyError error
	// neverReady keeps the pod from becoming Ready, and stuck keeps the namespace terminating.
	neverReady, stuck bool

	messages, deliveries, deadLetters int
	delivering, maxDelivering         int
}

// newTimeline has a new agent whose creation has published a nudge. stop ends the workers and the sweep.
func newTimeline(ctx context.Context) (l *timeline, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	l = &timeline{ctx: ctx, sim: newSimulation(nil, 0)}
	_ = l.Nudge(ctx, l.sim.id)
	sweeper := &provisioning.Sweeper{Records: l, Nudger: l, Now: time.Now}
	l.done.Go(func() {
		for l.pause(time.Minute) {
			_ = sweeper.Sweep(ctx)
		}
	})
	return l, func() { cancel(); l.done.Wait() }
}

// pause waits and reports whether the timeline goes on.
func (l *timeline) pause(d time.Duration) bool {
	select {
	case <-l.ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Nudge implements agent.Nudger: it publishes a message.
func (l *timeline) Nudge(context.Context, string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages++
	l.done.Go(l.deliverMessage)
	return nil
}

func (l *timeline) deliverMessage() {
	for backoff, n := minBackoff, 0; n < maxDeliveries; n++ {
		if l.deliver() == nil || !l.pause(backoff) {
			return
		}
		backoff = min(2*backoff, maxBackoff)
	}
	l.count(func() { l.deadLetters++ })
	_ = (&provisioning.Sweeper{Records: l, Nudger: l, Now: time.Now}).DeadLetter(l.ctx, l.sim.id)
}

func (l *timeline) deliver() error {
	l.count(func() {
		l.deliveries++
		l.delivering++
		l.maxDelivering = max(l.maxDelivering, l.delivering)
	})
	defer l.count(func() { l.delivering-- })
	r := &provisioning.Reconciler{
		Records: l, Cluster: timelineCluster{l}, Secrets: secretStore{l.sim}, Prober: prober{l.sim}, Now: time.Now,
		WatchTimeout: watchTimeout,
	}
	return r.Reconcile(l.ctx, l.sim.id)
}

func (l *timeline) count(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// act is a client's action, which publishes a nudge.
func (l *timeline) act(trigger agent.Trigger) {
	l.count(func() { _ = l.sim.record.Act(trigger, agent.Manual, time.Now()) })
	_ = l.Nudge(l.ctx, l.sim.id)
}

// record returns the present record; the zero agent if it is gone.
func (l *timeline) record() agent.Agent {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sim.record == nil {
		return agent.Agent{}
	}
	return clone(*l.sim.record)
}

// await waits until the record satisfies a condition, and returns how long that took.
func (l *timeline) await(t *testing.T, what string, limit time.Duration, is func(agent.Agent) bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for !is(l.record()) {
		if time.Since(begun) > limit {
			t.Fatalf("after %v, the agent is not %s but %s, converged %t, failure %+v", limit, what,
				l.record().Status, l.record().Converged(), l.record().Failure)
		}
		l.pause(time.Second)
	}
	return time.Since(begun)
}

// checkFor calls check each second for some time.
func (l *timeline) checkFor(t *testing.T, d time.Duration, check func(agent.Agent) error) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < d; l.pause(time.Second) {
		if err := check(l.record()); err != nil {
			t.Fatalf("after %v: %v", time.Since(begun), err)
		}
	}
}

func settled(a agent.Agent) bool { return a.Status == agent.Running && a.Converged() }

func isStatus(status agent.Status) func(agent.Agent) bool {
	return func(a agent.Agent) bool { return a.Status == status }
}

var errOutage = fault.New(fault.Unavailable, "down", "It is down.")

// The methods of agent.WorkerStore.

func (l *timeline) database(do func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.databaseDown {
		return errOutage
	}
	return do()
}

func (l *timeline) Load(ctx context.Context, id string) (a agent.Agent, err error) {
	err = l.database(func() error { a, err = records{l.sim}.Load(ctx, id); return err })
	return a, err
}

func (l *timeline) Update(ctx context.Context, a agent.Agent, change func(*agent.Agent)) (next agent.Agent, err error) {
	err = l.database(func() error { next, err = records{l.sim}.Update(ctx, a, change); return err })
	return next, err
}

func (l *timeline) Remove(ctx context.Context, a agent.Agent) error {
	return l.database(func() error { return records{l.sim}.Remove(ctx, a) })
}

func (l *timeline) ListDue(ctx context.Context, now time.Time, limit int) (due []agent.Agent, err error) {
	err = l.database(func() error { due, err = records{l.sim}.ListDue(ctx, now, limit); return err })
	return due, err
}

// timelineCluster implements provisioning.Cluster.
type timelineCluster struct{ *timeline }

func (c timelineCluster) call(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clusterDown {
		return errOutage
	}
	return do()
}

func (c timelineCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	return c.call(func() error {
		if c.applyError != nil {
			return c.applyError
		}
		return cluster{c.sim}.Apply(ctx, a, stage, in)
	})
}

// watch polls a condition until ctx ends.
func (c timelineCluster) watch(ctx context.Context, is func() bool) error {
	for {
		seen := false
		if err := c.call(func() error { seen = is(); return nil }); err != nil || seen {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

func (c timelineCluster) AwaitReady(ctx context.Context, _ agent.Agent) error {
	err := c.watch(ctx, func() bool { return !c.neverReady })
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w (%w)", &provisioning.PodFailure{Code: notReady, Message: "It does not answer."}, err)
	}
	return err
}

func (c timelineCluster) Delete(ctx context.Context, a agent.Agent) error {
	return c.call(func() error { return cluster{c.sim}.Delete(ctx, a) })
}

func (c timelineCluster) AwaitGone(ctx context.Context, _ agent.Agent) error {
	if err := c.watch(ctx, func() bool { return !c.stuck }); err != nil {
		return fault.New(fault.Unavailable, "deletion_pending", "It still exists.").WithCause(err)
	}
	return nil
}

func (c timelineCluster) Prune(ctx context.Context, a agent.Agent) error {
	return c.call(func() error { return cluster{c.sim}.Prune(ctx, a) })
}
