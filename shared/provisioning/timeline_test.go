package provisioning_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// The production values of the queue and the worker.
const (
	minBackoff    = 10 * time.Second
	maxBackoff    = 600 * time.Second
	maxDeliveries = 20
)

// timeline runs the agent of a world with a queue, concurrent workers and a sweep each minute, in the bubble's time.
type timeline struct {
	*world
	ctx  context.Context
	done sync.WaitGroup

	// The world's lock guards all below.

	// applyError is what every Apply answers; nil for success.
	applyError error
	// neverReady keeps the pod from becoming Ready, and stuck keeps the namespace terminating.
	neverReady, stuck bool

	messages, deliveries, deadLetters int
	delivering, maxDelivering         int
}

// newTimeline has a new agent whose creation publishes a nudge, after given. stop ends the workers and the sweep.
func newTimeline(t *testing.T, given func(*timeline)) (l *timeline, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	l = &timeline{ctx: ctx, world: newWorld(t)}
	if given != nil {
		given(l)
	}
	_ = l.Nudge(ctx, l.id)
	sweeper := &provisioning.Sweeper{Records: l.records(), Nudger: l, Now: l.Now}
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
	l.Lock()
	defer l.Unlock()
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
	_ = (&provisioning.Sweeper{Records: l.records(), Nudger: l, Now: l.Now}).DeadLetter(l.ctx, l.id)
}

func (l *timeline) deliver() error {
	l.count(func() {
		l.deliveries++
		l.delivering++
		l.maxDelivering = max(l.maxDelivering, l.delivering)
	})
	defer l.count(func() { l.delivering-- })
	r := l.reconciler()
	r.Cluster = timelineCluster{l.objects(), l}
	return r.Reconcile(l.ctx, l.id)
}

func (l *timeline) count(change func()) {
	l.Lock()
	defer l.Unlock()
	change()
}

// setDown begins or ends the outage of a service.
func (l *timeline) setDown(service simulationtest.Service, down bool) {
	l.count(func() { l.Down[service] = down })
}

// act is a client's action, which publishes a nudge.
func (l *timeline) act(trigger agent.Trigger) {
	l.change(act(trigger))
	_ = l.Nudge(l.ctx, l.id)
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

func isStatus(status agent.Status) func(agent.Agent) bool {
	return func(a agent.Agent) bool { return a.Status == status }
}

// timelineCluster implements provisioning.Cluster.
type timelineCluster struct {
	objects
	timeline *timeline
}

func (c timelineCluster) Apply(ctx context.Context, a agent.Agent, stage agent.StageName,
	in provisioning.RuntimeInput,
) error {
	var err error
	c.timeline.count(func() { err = c.timeline.applyError })
	if err != nil {
		return err
	}
	return c.objects.Apply(ctx, a, stage, in)
}

func (c timelineCluster) CheckReady(ctx context.Context, a agent.Agent) error {
	never := false
	c.timeline.count(func() { never = c.timeline.neverReady })
	if err := c.objects.CheckReady(ctx, a); err != nil || !never {
		return err
	}
	return &provisioning.PodFailure{Code: notReady, Message: "It does not answer."}
}

func (c timelineCluster) CheckGone(ctx context.Context, a agent.Agent) (provisioning.Gone, error) {
	stuck := false
	c.timeline.count(func() { stuck = c.timeline.stuck })
	gone, err := c.objects.CheckGone(ctx, a)
	if stuck {
		return provisioning.Gone{}, err
	}
	return gone, err
}
