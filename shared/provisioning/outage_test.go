package provisioning_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/shared/simulationtest"
)

// twoSweeps is the longest time between the end of an outage and the next run.
const twoSweeps = 2*time.Minute + agent.NudgeGrace + time.Second

func TestReconcile_EndsNoAgentInErrorBecauseOfAnOutage(t *testing.T) {
	t.Parallel()
	type row struct {
		restarted bool // a running agent, otherwise a new one
		outage    func(*timeline, bool)
		lasts     time.Duration
	}
	rows := map[string]row{}
	cluster := func(l *timeline, down bool) { l.setDown(simulationtest.ClusterService, down) }
	database := func(l *timeline, down bool) { l.setDown(simulationtest.DatabaseService, down) }
	for _, minutes := range []int{1, 4, 9, 11, 12, 16, 61} {
		for _, restarted := range []bool{false, true} {
			name := fmt.Sprintf("for %d minutes, restarted %t", minutes, restarted)
			lasts := time.Duration(minutes) * time.Minute
			rows["cluster down "+name] = row{restarted: restarted, outage: cluster, lasts: lasts}
			rows["database down "+name] = row{restarted: restarted, outage: database, lasts: lasts}
		}
	}
	for name, c := range rows {
		inBubble(t, name, func(t *testing.T) {
			begin := func(l *timeline) { c.outage(l, true) }
			if c.restarted {
				begin = nil
			}
			l, stop := newTimeline(t, begin)
			defer stop()
			if c.restarted {
				l.await(t, "running", time.Minute, settled)
				l.change(act(agent.Restart))
				c.outage(l, true)
				_ = l.Nudge(l.ctx, l.id)
			}
			l.checkFor(t, c.lasts, func(a agent.Agent) error {
				up := a.Status == agent.Running || !c.restarted && a.Status.Up()
				if !up || a.Converged() {
					return fmt.Errorf("the agent is %s, converged %t", a.Status, a.Converged())
				}
				return nil
			})
			if f := l.record().Failure; f != nil && (f.Code != "cluster_unavailable" || !f.Outage || !f.Retryable) {
				t.Errorf("failure in the outage = %+v, want a retryable outage", f)
			}
			c.outage(l, false)
			l.await(t, "running", twoSweeps, settled)
			if f := l.record().Failure; f != nil {
				t.Errorf("failure after the outage = %+v, want none", f)
			}
		})
	}
}

// An outage is shown to the client of a running agent whose change waits.
func TestReconcile_ShowsAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, stop := newTimeline(t, nil)
		defer stop()
		l.await(t, "running", time.Minute, settled)
		l.setDown(simulationtest.ClusterService, true)
		l.act(agent.Restart)
		l.await(t, "showing the outage", time.Second, func(a agent.Agent) bool {
			return a.Status == agent.Running && a.Failure != nil && a.Failure.Outage
		})
	})
}

func TestReconcile_EnforcesTheDeadlineOfThePod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		restarted bool
		outage    time.Duration // before the objects are applied
		want      time.Duration // from when the objects are applied
	}{
		"new agent":                       {want: agent.ProvisioningTimeout},
		"new agent after an outage":       {outage: 30 * time.Minute, want: agent.ProvisioningTimeout},
		"restarted agent":                 {restarted: true, want: agent.ReadinessTimeout},
		"restarted agent after an outage": {restarted: true, outage: 30 * time.Minute, want: agent.ReadinessTimeout},
	} {
		inBubble(t, name, func(t *testing.T) {
			breaks := func(l *timeline) {
				l.setDown(simulationtest.ClusterService, c.outage > 0)
				l.count(func() { l.neverReady = true })
			}
			begin := breaks
			if c.restarted {
				begin = nil
			}
			l, stop := newTimeline(t, begin)
			defer stop()
			if c.restarted {
				l.await(t, "running", time.Minute, settled)
				breaks(l)
				l.act(agent.Restart)
			}
			l.pause(c.outage)
			l.setDown(simulationtest.ClusterService, false)
			l.await(t, "watched", twoSweeps, func(a agent.Agent) bool { return !a.Deadline.IsZero() })
			took := l.await(t, "in error", time.Hour, isStatus(agent.Error))
			if took < c.want-10*time.Second || took > c.want+agent.NudgeGrace {
				t.Errorf("in error after %v, want after %v", took, c.want)
			}
			if f := l.record().Failure; f.Code != notReady || f.Stage != agent.StageReady || !f.Retryable {
				t.Errorf("failure = %+v, want a retryable %s of stage ready", f, notReady)
			}
			l.count(func() {
				if l.maxDelivering > 2 {
					t.Errorf("%d deliveries at the same time, want at most 2", l.maxDelivering)
				}
			})
		})
	}
}

// An error about the agent ends a provisioning whose objects can't be applied. No deadline runs before that.
func TestReconcile_GivesUpAfterManyErrorsAboutTheAgent(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"quota_exceeded", "secret_value_unavailable"} {
		inBubble(t, code, func(t *testing.T) {
			l, stop := newTimeline(t, func(l *timeline) {
				l.applyError = fault.New(fault.Unavailable, code, "It does not fit.")
			})
			defer stop()
			l.await(t, "in error", time.Hour, isStatus(agent.Error))
			if f := l.record().Failure; f.Code != code || !f.Retryable || f.Outage {
				t.Errorf("failure = %+v, want a retryable %s that is no outage", f, code)
			}
		})
	}
}

// The pod becomes Ready while the control plane can't see it, after the deadline.
func TestReconcile_LooksAtThePodBeforeItGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, stop := newTimeline(t, func(l *timeline) { l.neverReady = true })
		defer stop()
		l.await(t, "watched", time.Minute, func(a agent.Agent) bool { return !a.Deadline.IsZero() })
		l.pause(5 * time.Minute)
		l.setDown(simulationtest.ClusterService, true)
		l.count(func() { l.neverReady = false })
		l.pause(time.Hour)
		if a := l.record(); !a.Status.Up() {
			t.Errorf("status in the outage = %s, want pending or provisioning", a.Status)
		}
		l.setDown(simulationtest.ClusterService, false)
		l.await(t, "running", twoSweeps, settled)
	})
}

func TestReconcile_LooksAtAStuckDeletionLessAndLessOften(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, stop := newTimeline(t, nil)
		defer stop()
		l.await(t, "running", time.Minute, settled)
		l.count(func() { l.stuck, l.deliveries, l.messages, l.maxDelivering = true, 0, 0, 0 })
		l.act(agent.Delete)
		l.pause(10 * time.Second)
		_ = l.Nudge(t.Context(), l.id) // a duplicate message
		l.pause(24 * time.Hour)
		l.count(func() {
			const most = 24*60/10 + 8 // a look each ten minutes, and some more in the first minutes
			if l.deliveries > most || l.messages > most || l.deadLetters > 0 {
				t.Errorf("%d deliveries, %d messages and %d dead letters a day, want at most %d, %d and 0",
					l.deliveries, l.messages, l.deadLetters, most, most)
			}
			if l.maxDelivering > 2 { // the duplicate, and the run that it leaves alone
				t.Errorf("%d deliveries at the same time, want at most 2", l.maxDelivering)
			}
			l.stuck = false
		})
		if a := l.record(); a.Status != agent.Deleting || a.Failure != nil {
			t.Errorf("the agent is %s, failure %+v; a deletion that takes long has not failed", a.Status, a.Failure)
		}
		l.await(t, "gone", 12*time.Minute, isStatus(""))
	})
}

func TestReconcile_AddsFewMessagesInAnOutage(t *testing.T) {
	t.Parallel()
	for _, trigger := range []agent.Trigger{agent.Stop, agent.Delete, agent.Restart} {
		inBubble(t, string(trigger), func(t *testing.T) {
			l, stop := newTimeline(t, nil)
			defer stop()
			l.await(t, "running", time.Minute, settled)
			l.setDown(simulationtest.ClusterService, true)
			l.count(func() { l.deliveries, l.maxDelivering = 0, 0 })
			l.act(trigger)
			l.pause(6 * time.Hour)
			l.count(func() {
				const most = 6*60 + 20 // two deliveries each two minutes, and some more in the first minutes
				if l.deliveries > most || l.deadLetters > 0 || l.maxDelivering > 2 {
					t.Errorf("%d deliveries, %d at the same time, and %d dead letters in six hours, "+
						"want at most %d, 2 and 0", l.deliveries, l.maxDelivering, l.deadLetters, most)
				}
			})
			l.setDown(simulationtest.ClusterService, false)
			l.await(t, "at its desired state", twoSweeps, func(a agent.Agent) bool { return a.Converged() })
		})
	}
}

// hanging answers when ctx ends.
func hanging(ctx context.Context) error {
	<-ctx.Done()
	return fault.New(fault.Unavailable, "cluster_unavailable", "It did not answer.").WithCause(ctx.Err())
}

// hangingDeletion is a cluster whose looks at a deletion hang.
type hangingDeletion struct{ objects }

func (hangingDeletion) CheckGone(ctx context.Context, _ agent.Agent) (provisioning.Gone, error) {
	return provisioning.Gone{}, hanging(ctx)
}

// Whatever hangs, and whatever a push waits for.
func TestReconcile_HoldsNoPushLongerThanTenSeconds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given func(*agent.Agent)
		on    agent.StageName
	}{
		"namespace": {on: agent.StageNamespace},
		"volume":    {on: agent.StageStorage},
		"workload":  {on: agent.StageRuntime},
		"look":      {on: agent.StageReady},
		"deletion":  {on: agent.StageReady, given: act(agent.Delete)},
		"another worker": {given: func(a *agent.Agent) {
			a.AcquireLease("another", time.Now())
			a.Lease.Until = time.Now().Add(time.Hour)
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			if c.given != nil {
				w.change(c.given)
			}
			r := w.reconciler()
			r.Cluster = hangingDeletion{w.objectsBefore(
				func(ctx context.Context, _ agent.Agent, stage agent.StageName) error {
					if stage != c.on {
						return nil
					}
					return hanging(ctx)
				},
			)}
			begun := time.Now()
			err := r.Reconcile(t.Context(), w.id)
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("Reconcile took %v, want at most 10 s", took)
			}
			if fault.Is(err, fault.Unavailable) != (c.on != "") {
				t.Errorf("Reconcile = %v, want an error of kind unavailable: %t", err, c.on != "")
			}
			if f := w.record().Failure; c.on != "" && (f == nil || !f.Outage) {
				t.Errorf("failure = %+v, want an outage", f)
			}
		})
	}
}

func TestReconcile_LeavesAnAgentAloneUntilItsNextAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.change(func(a *agent.Agent) { a.RetryAt = time.Now().Add(time.Minute) })
		effects := w.Effects
		if err := w.deliver(); err != nil || w.Effects > effects {
			t.Errorf("an early delivery had %d effects, error %v, want none", w.Effects-effects, err)
		}
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		if err := w.deliver(); err != nil || !settled(w.record()) {
			t.Errorf("the agent is %s, error %v, want running", w.record().Status, err)
		}
	})
}
