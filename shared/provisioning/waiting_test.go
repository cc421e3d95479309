package provisioning_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// pendingCluster reports a failure of every pod.
type pendingCluster struct {
	objects
	failure provisioning.PodFailure
}

func (c *pendingCluster) CheckReady(context.Context, agent.Agent) error {
	f := c.failure
	return &f
}

// A new agent's pod needs 14 minutes. The sweep nudges once a minute what is due.
func TestReconcile_LooksLessAndLessOftenAtAWaitingAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, stop := newTimeline(t, func(l *timeline) { l.neverReady = true })
		defer stop()
		l.checkFor(t, 14*time.Minute, func(a agent.Agent) error {
			if a.Status != agent.Provisioning || a.Attempts > 1 {
				return fmt.Errorf("the agent is %s after %d attempts, want provisioning and at most the first",
					a.Status, a.Attempts)
			}
			return nil
		})
		l.count(func() {
			if l.deliveries > 5 || l.deadLetters > 0 {
				t.Errorf("%d deliveries and %d dead letters in 14 minutes, want at most 5 and 0", l.deliveries,
					l.deadLetters)
			}
			l.neverReady = false
		})
		_ = l.Nudge(l.ctx, l.id) // of the notifier
		l.await(t, "running", time.Second, settled)
	})
}

func TestReconcile_ANudgeWhileAnAgentWaitsWritesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := w.reconciler()
		r.Cluster = &pendingCluster{w.objects(), provisioning.PodFailure{Code: notReady, Repairable: true}}
		for i := range 3 {
			commits, effects := w.database.Commits, w.Effects
			if err := r.Reconcile(t.Context(), w.id); err != nil {
				t.Fatalf("Reconcile = %v, want nil: waiting is no failure", err)
			}
			if commits, calls := w.database.Commits-commits, w.Effects-effects; i > 0 && (commits > 0 || calls > 1) {
				t.Errorf("a nudge made %d commits with %d calls, want none with the one that checks the record",
					commits,
					calls)
			}
			time.Sleep(15 * time.Second) //nolint:forbidigo // in the bubble's time
		}
		applied := w.record().AppliedAt
		time.Sleep(time.Minute) //nolint:forbidigo // in the bubble's time
		if err := r.Reconcile(t.Context(), w.id); err != nil || !w.record().AppliedAt.After(applied) {
			t.Errorf("after a minute, Reconcile = %v and the objects are applied at %v, want nil and later than %v",
				err,
				w.record().AppliedAt, applied)
		}
	})
}

// A new agent costs one write at the beginning, one for its credentials, and one at the end of a push.
func TestReconcile_WritesTheRecordThreeTimesForANewAgent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.database.Commits
		must(t, w.deliver())
		if commits := w.database.Commits - before; commits != 3 || !settled(w.record()) {
			t.Errorf("%d writes of the record, and the agent is %s; want 3 and running", commits, w.record().Status)
		}
		for _, s := range w.record().Stages {
			if s.Attempt != 1 && s.Name != agent.StageReady && s.Name != agent.StageSecrets {
				t.Errorf("stage %s has attempt %d, want 1", s.Name, s.Attempt)
			}
		}
	})
}

func TestReconcile_ShowsWhyAnAgentWaits(t *testing.T) {
	t.Parallel()
	for code, wantSoon := range map[string]bool{
		provisioning.CodeImagePull: true, "pod_crash_loop": true, notReady: false, agent.CodeUnschedulable: false,
	} {
		inBubble(t, code, func(t *testing.T) {
			w := newWorld(t)
			r := w.reconciler()
			r.Cluster = &pendingCluster{w.objects(), provisioning.PodFailure{Code: code, Message: "Why."}}
			for _, want := range []bool{wantSoon, true} {
				must(t, r.Reconcile(t.Context(), w.id))
				a := w.record()
				shown := a.Failure != nil && a.Failure.Code == code
				if shown != want || a.Status != agent.Provisioning {
					t.Errorf("the agent is %s with failure %+v; want provisioning, shown %t", a.Status,
						a.Failure, want)
				}
				time.Sleep(61 * time.Second) //nolint:forbidigo // in the bubble's time
			}
		})
	}
}

// A pod of a running agent has five minutes to find a machine.
func TestReconcile_GivesAPodFiveMinutesToFindAMachine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(act(agent.Restart))
		r := w.reconciler()
		begun := time.Now()
		r.Cluster = &pendingCluster{w.objects(), provisioning.PodFailure{
			Code: agent.CodeUnschedulable, Message: "No room.", Since: begun,
			Observed: agent.Observation{Reason: "Unschedulable", Lacks: "cpu"},
		}}
		for w.record().Status == agent.Running {
			must(t, r.Reconcile(t.Context(), w.id))
			a := w.record()
			if a.Status == agent.Running && !a.Warming {
				t.Error("the agent waits for a machine, and its dashboard is not shown as warming")
			}
			if due := a.WorkDueAt; !due.IsZero() {
				time.Sleep(time.Until(due)) //nolint:forbidigo // in the bubble's time
			}
		}
		if took := time.Since(begun); took != 5*time.Minute {
			t.Errorf("in error after %v, want after 5 minutes", took)
		}
		want := agent.Observation{Reason: "Unschedulable", Lacks: "cpu", Since: begun}
		if f := w.record().Failure; f == nil || f.Code != agent.CodeUnschedulable || f.Observed != want {
			t.Errorf("failure = %+v, want %s with the observation %+v", f, agent.CodeUnschedulable, want)
		}
	})
}
