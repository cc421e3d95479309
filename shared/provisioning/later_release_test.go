package provisioning_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/secret"
)

// impatient fails the reads of a worker that reads a record again and again.
type impatient struct {
	agent.WorkerStore
	reads int
}

func (r *impatient) Load(ctx context.Context, id string) (agent.Agent, error) {
	if r.reads++; r.reads > 5 {
		return agent.Agent{}, errors.New("the worker reads the record without end")
	}
	return r.WorkerStore.Load(ctx, id)
}

// After a roll-back, an operation may have an action or a stage that only the later release knows. That one goes on
// with it.
func TestReconcile_LeavesOperationsOfALaterRelease(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]secret.Operation{
		"stage":            {Action: secret.Set, Stage: "verify"},
		"action, to bind":  {Action: "disable", Stage: secret.Bind},
		"action, to write": {Action: "disable", Stage: secret.Sync},
		"action, to prove": {Action: "disable", Stage: secret.Rollout},
		"action, to end":   {Action: "disable", Stage: secret.Complete},
	} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			given.ID, given.Key, given.Version, given.Status = "later", "TOKEN", 3, secret.Running
			given.CreatedAt, given.UpdatedAt = time.Now(), time.Now()
			w.change(func(a *agent.Agent) {
				a.Operations, a.WorkDueAt = []secret.Operation{given}, time.Now()
			})
			effects := w.Effects
			r := w.reconciler()
			r.Records = &impatient{WorkerStore: r.Records}
			if err := r.Reconcile(t.Context(), w.id); err != nil {
				t.Errorf("reconcile: %v", err)
			}
			if got := w.Effects - effects; got != 0 {
				t.Errorf("the worker had %d effects, want none", got)
			}
			a := w.record()
			if o := a.Operation("later"); o == nil || *o != given {
				t.Errorf("the operation became %+v, want %+v", o, given)
			}
			if a.WorkDueAt.IsZero() || a.Status != agent.Running {
				t.Errorf("the %s agent has no work due, and the later release does not find it", a.Status)
			}
		})
	}
}

// After a roll-back, an agent may have a status that only the later release knows. Whether it has a pod is for that one
// to say.
func TestReconcile_LeavesAnAgentInAStatusOfALaterRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(func(a *agent.Agent) {
			a.Status, a.Generation, a.WorkDueAt = "migrating", a.Generation+1, time.Now()
		})
		before, effects := w.record(), w.Effects
		if err := w.deliver(); err != nil {
			t.Errorf("reconcile: %v", err)
		}
		if got := w.Effects - effects; got != 0 || !w.existence().Pod {
			t.Errorf("the worker had %d effects, the pod exists: %t; want none, and the pod", got, w.existence().Pod)
		}
		if a := w.record(); !a.Equal(before) {
			t.Errorf("the record became %+v, want %+v", a, before)
		}
	})
}

// A client may stop such an agent: its pod costs money and may do harm until the later release is back.
func TestReconcile_StopsAnAgentInAStatusOfALaterRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(func(a *agent.Agent) {
			a.Status = "migrating"
			if err := a.Act(agent.Stop, agent.Manual, time.Now()); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
		if err := w.deliver(); err != nil {
			t.Errorf("reconcile: %v", err)
		}
		if a := w.record(); w.existence().Pod || a.Status != agent.Stopped || !a.Converged() {
			t.Errorf("the agent is %s, done: %t, the pod exists: %t; want it stopped, without a pod", a.Status,
				a.Converged(), w.existence().Pod)
		}
	})
}

// A release may find other times due than the one that wrote a record last: it knows schedules that the other one does
// not, or takes snapshots that the other one did not take.
func TestCheckDrift_CorrectsTheDueTimesOfAnotherRelease(t *testing.T) {
	t.Parallel()
	due := time.Date(2026, 5, 6, 9, 0, 0, 0, time.UTC) // after checkedAt
	asleep := func(a *agent.Agent) {
		a.Status, a.StatusReason, a.Sleep = agent.Paused, agent.ReasonIdle, agent.SleepAfter(300)
	}
	for name, row := range map[string]struct {
		given     func(*agent.Agent)
		recorded  time.Time
		want      time.Time
		wantCalls string
	}{
		"running":       {given: func(*agent.Agent) {}, want: due, wantCalls: "update"},
		"asleep":        {given: asleep, want: due, wantCalls: "update"},
		"due too late":  {given: asleep, recorded: due.Add(time.Hour), want: due, wantCalls: "update"},
		"due":           {given: asleep, recorded: due, want: due},
		"due too early": {given: asleep, recorded: due.Add(-time.Hour), want: due.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, a := newDriftFixture(), runningAgent(own)
			row.given(&a)
			a.Schedules = []agent.Schedule{{
				ScheduleTerms: agent.ScheduleTerms{ID: "daily", Cron: "0 9 * * *", Timezone: "UTC"}, After: checkedAt,
			}}
			s.add(a)
			s.database.Arrange(own, func(a *agent.Agent) { a.CallsDueAt = row.recorded })
			for range 2 {
				must(t, s.check(t))
			}
			if got := s.find(own).CallsDueAt; !got.Equal(row.want) {
				t.Errorf("the schedules are due at %v, want %v", got, row.want)
			}
			if got := s.callsAbout(own); got != row.wantCalls {
				t.Errorf("the check made the calls %q, want %q", got, row.wantCalls)
			}
		})
	}
}

// A former release makes an agent without a stage that this one knows. The stage is not done.
func TestReconcile_AppliesAStageThatTheRecordLacks(t *testing.T) {
	t.Parallel()
	for _, name := range agent.StageNames()[:len(agent.StageNames())-1] { // the last one applies nothing
		inBubble(t, string(name), func(t *testing.T) {
			w := newWorld(t)
			w.database.Arrange(w.id, func(a *agent.Agent) {
				lacked := func(s agent.Stage) bool { return s.Name == name }
				a.Stages = slices.DeleteFunc(slices.Clone(a.Stages), lacked)
			})
			w.settle()
			if a := w.record(); !settled(a) {
				t.Errorf("the agent is %s (%+v), want it to run", a.Status, a.Failure)
			}
			if name != agent.StageSecrets && w.applied[name] == 0 {
				t.Errorf("the stage was not applied")
			}
		})
	}
}

// After a roll-back, the snapshot that a pod is stopped for may be in a status of the later release. The pod does not
// wait for it without end.
func TestReconcile_StartsAPodThatIsStoppedForASnapshotOfALaterRelease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(func(a *agent.Agent) {
			_, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentByStop}, time.Now())
			if err != nil {
				t.Error(err)
			}
			a.Snapshots[0].Status = "uploading"
		})
		begun := time.Now()
		for range 100 {
			must(t, w.deliver())
			if w.record().StoppedFor == "" {
				break
			}
			time.Sleep(10 * time.Second) //nolint:forbidigo // in the bubble's time
		}
		w.settle()
		a := w.record()
		if !settled(a) || !w.existence().Pod || time.Since(begun) > 2*agent.HoldTime {
			t.Errorf("after %v, the agent is %s and stopped for %q; want its pod back", time.Since(begun), a.Status,
				a.StoppedFor)
		}
		if len(a.Snapshots) != 1 || a.Snapshots[0].Status != "uploading" {
			t.Errorf("the snapshots became %+v, want the one of the later release", a.Snapshots)
		}
	})
}
