package provisioning_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// nudges is an agent.Nudger that records its nudges.
type nudges struct {
	ids []string
	err error
}

func (n *nudges) Nudge(_ context.Context, id string) error {
	n.ids = append(n.ids, id)
	return n.err
}

func TestSweep_NudgesOverdueAgents(t *testing.T) {
	t.Parallel()
	waiting := func(a *agent.Agent) {
		a.Applied(time.Now())
		a.AwaitReady(nil, time.Time{}, time.Now())
	}
	restarted := func(a *agent.Agent) {
		a.BecameReady(time.Now())
		_ = a.Act(agent.Restart, agent.Manual, time.Now())
	}
	for name, c := range map[string]struct {
		after      time.Duration // since the agent was created
		given      func(*agent.Agent)
		wantStatus agent.Status
		wantNudges int
	}{
		"provisioning for 30 seconds":  {after: 30 * time.Second, wantStatus: agent.Provisioning},
		"provisioning without a nudge": {after: 2 * time.Minute, wantStatus: agent.Provisioning, wantNudges: 1},
		"provisioning for a day":       {after: 24 * time.Hour, wantStatus: agent.Provisioning, wantNudges: 1},
		"waiting for less than a minute": {
			after: 59 * time.Second, given: waiting, wantStatus: agent.Provisioning,
		},
		"waiting for a minute": {
			after: 61 * time.Second, given: waiting, wantStatus: agent.Provisioning, wantNudges: 1,
		},
		"after the deadline": {
			after: time.Hour, given: waiting, wantStatus: agent.Provisioning, wantNudges: 1,
		},
		"restarting for a day": {
			after: 24 * time.Hour, given: restarted, wantStatus: agent.Running, wantNudges: 1,
		},
		"deleting for a day": {
			after: 24 * time.Hour, given: act(agent.Delete), wantStatus: agent.Deleting, wantNudges: 1,
		},
		"stopping for a day": {
			after: 24 * time.Hour, given: act(agent.Stop), wantStatus: agent.Stopped, wantNudges: 1,
		},
		"a status and work of a later release": {
			after: 24 * time.Hour, given: func(a *agent.Agent) {
				a.BecameReady(time.Now())
				a.Status, a.WorkDueAt = "migrating", time.Now().Add(time.Hour)
			}, wantStatus: "migrating", wantNudges: 1,
		},
		"no work": {
			after: 24 * time.Hour,
			given: func(a *agent.Agent) { a.BecameReady(time.Now()) }, wantStatus: agent.Running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newWorld(t), &nudges{}
			if c.given != nil {
				w.change(c.given)
			}
			now := time.Now().Add(c.after)
			s := &provisioning.Sweeper{Records: w.records(), Nudger: n, Now: func() time.Time { return now }}
			for range 2 { // the second sweep follows immediately and finds no work
				must(t, s.Sweep(t.Context()))
			}
			if w.record().Status != c.wantStatus {
				t.Errorf("status = %s, want %s", w.record().Status, c.wantStatus)
			}
			if len(n.ids) != c.wantNudges {
				t.Errorf("nudges = %d, want %d", len(n.ids), c.wantNudges)
			}
			if f := w.record().Failure; f != nil {
				t.Errorf("failure = %+v, want none: the sweep has not looked at the agent", f)
			}
		})
	}
}

// lateList lets the listed work finish before the sweep acts on the list.
type lateList struct {
	agent.WorkerStore
	finish func()
}

func (l lateList) ListDue(ctx context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	due, err := l.WorkerStore.ListDue(ctx, now, limit)
	if len(due) > 0 {
		l.finish()
	}
	return due, err
}

func TestSweep_LeavesFinishedAgentAlone(t *testing.T) {
	t.Parallel()
	now := time.Now().Add(2 * time.Minute)
	for name, c := range map[string]struct {
		concurrently func(*agent.Agent)
		wantDue      time.Time
	}{
		"became ready": {concurrently: func(a *agent.Agent) { a.BecameReady(now) }},
		"gave up":      {concurrently: func(a *agent.Agent) { a.GiveUp(agent.Failure{Code: "pod_rejected"}, now) }},
		"taken up by a worker": {
			concurrently: func(a *agent.Agent) { a.AcquireLease("another", now) },
			wantDue:      now.Add(agent.NudgeGrace),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newWorld(t), &nudges{}
			s := &provisioning.Sweeper{
				Records: lateList{w.records(), func() { w.change(c.concurrently) }}, Nudger: n,
				Now: func() time.Time { return now },
			}
			must(t, s.Sweep(t.Context()))
			if !w.record().WorkDueAt.Equal(c.wantDue) {
				t.Errorf("work is due at %v, want %v", w.record().WorkDueAt, c.wantDue)
			}
			if len(n.ids) != 0 {
				t.Errorf("nudges = %d, want 0", len(n.ids))
			}
		})
	}
}

// manyDue is a store whose agents are all overdue.
type manyDue struct{ agent.WorkerStore }

func (manyDue) ListDue(_ context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	due := make([]agent.Agent, limit)
	for i := range due {
		due[i] = agent.New(strconv.Itoa(i), "local", agent.Draft{}, now.Add(-time.Hour))
	}
	return due, nil
}

func (manyDue) ListCallsDue(context.Context, time.Time, int) ([]agent.Agent, error) { return nil, nil }

func (manyDue) Update(_ context.Context, a agent.Agent, change func(*agent.Agent)) (agent.Agent, error) {
	change(&a)
	return a, nil
}

// slowNudger fails as Pub/Sub's client does while Pub/Sub is down.
type slowNudger struct{}

func (slowNudger) Nudge(context.Context, string) error {
	time.Sleep(5 * time.Second) //nolint:forbidigo // in the bubble's time
	return errors.New("Pub/Sub is down")
}

func TestSweep_EndsInTimeWhilePubSubIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s := &provisioning.Sweeper{Records: manyDue{}, Nudger: slowNudger{}, Now: time.Now}
		if err := s.Sweep(t.Context()); err == nil {
			t.Error("Sweep = nil, want the errors of the nudges")
		}
		if took := time.Since(begun); took > 5*time.Minute {
			t.Errorf("the sweep took %v, want less than half of the 10 minutes that the queue waits", took)
		}
	})
}

func TestSweep_ReportsFailedNudges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := &provisioning.Sweeper{
		Records: w.records(), Nudger: &nudges{err: errors.New("down")},
		Now: func() time.Time { return time.Now().Add(2 * time.Minute) },
	}
	if err := s.Sweep(t.Context()); err == nil {
		t.Error("Sweep succeeded with a failed nudge, want an error")
	}
}

// unwritable are records that can be read but not written.
type unwritable struct{ agent.WorkerStore }

// Update implements agent.WorkerStore.
func (unwritable) Update(_ context.Context, a agent.Agent, _ func(*agent.Agent)) (agent.Agent, error) {
	return a, errLost
}

// An acknowledged dead letter is gone, and the agent would look busy forever.
func TestDeadLetter_ReportsARecordThatItCannotWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change(func(a *agent.Agent) { a.Attempts = agent.MaxAttempts })
	s := &provisioning.Sweeper{Records: unwritable{w.records()}, Nudger: &nudges{}, Now: time.Now}
	if err := s.DeadLetter(t.Context(), w.id); !errors.Is(err, errLost) {
		t.Errorf("DeadLetter = %v, want %v", err, errLost)
	}
}

func TestDeadLetter_GivesUpOnlyAfterManyAttempts(t *testing.T) {
	t.Parallel()
	failed := func(attempts int, outage bool) func(*agent.Agent) {
		return func(a *agent.Agent) {
			a.Attempts = attempts
			a.Retry(agent.Failure{
				Code: "image_pull_failed", Stage: agent.StageReady, Message: "No image.",
				Outage: outage,
			}, time.Now())
		}
	}
	resumed := func(a *agent.Agent) { // its last message was about the former generation
		a.BecameReady(time.Now())
		failed(agent.MaxAttempts, false)(a)
		_ = a.Act(agent.Pause, agent.Manual, time.Now())
		_ = a.Act(agent.Resume, agent.Manual, time.Now())
	}
	crashed := func(a *agent.Agent) { a.Attempts = agent.MaxAttempts } // each worker died before it recorded a failure
	for name, c := range map[string]struct {
		given       func(*agent.Agent)
		wantStatus  agent.Status
		wantFailure string // the code, if the status is error
		wantNudges  int
	}{
		"many failed attempts": {
			given: failed(20, false), wantStatus: agent.Error, wantFailure: "image_pull_failed",
		},
		"many crashes of workers": {given: crashed, wantStatus: agent.Error, wantFailure: "attempts_exhausted"},
		"few failed attempts":     {given: failed(19, false), wantStatus: agent.Pending, wantNudges: 1},
		"a long outage":           {given: failed(20, true), wantStatus: agent.Pending, wantNudges: 1},
		"no attempt":              {given: func(*agent.Agent) {}, wantStatus: agent.Provisioning, wantNudges: 1},
		"just resumed":            {given: resumed, wantStatus: agent.Provisioning, wantNudges: 1},
		"failed deletion":         {given: act(agent.Delete), wantStatus: agent.Deleting},
		"no work": {
			given: func(a *agent.Agent) { a.BecameReady(time.Now()) }, wantStatus: agent.Running,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newWorld(t), &nudges{}
			w.change(c.given)
			s := &provisioning.Sweeper{Records: w.records(), Nudger: n, Now: time.Now}
			if err := s.DeadLetter(t.Context(), w.id); err != nil {
				t.Errorf("DeadLetter: %v", err)
			}
			if w.record().Status != c.wantStatus {
				t.Errorf("status = %s, want %s", w.record().Status, c.wantStatus)
			}
			if c.wantFailure != "" && w.record().Failure.Code != c.wantFailure {
				t.Errorf("failure = %+v, want %s", w.record().Failure, c.wantFailure)
			}
			if len(n.ids) != c.wantNudges {
				t.Errorf("nudges = %d, want %d", len(n.ids), c.wantNudges)
			}
			must(t, w.records().Remove(t.Context(), w.record(), agent.Deletion{}))
			if err := s.DeadLetter(t.Context(), w.id); err != nil {
				t.Errorf("DeadLetter for a removed agent: %v", err)
			}
		})
	}
}
