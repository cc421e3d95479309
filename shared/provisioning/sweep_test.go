package provisioning_test

import (
	"context"
	"errors"
	"testing"
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

func TestSweep_NudgesOrExpiresOverdueAgents(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after       time.Duration // since the agent was created
		given       func(*agent.Agent)
		wantStatus  agent.Status
		wantNudges  int
		wantFailure string // the code
	}{
		"provisioning for 30 seconds":  {after: 30 * time.Second, wantStatus: agent.Provisioning},
		"provisioning without a nudge": {after: 2 * time.Minute, wantStatus: agent.Provisioning, wantNudges: 1},
		"provisioning for too long": {
			after: 15 * time.Minute, wantStatus: agent.Error,
			wantFailure: "provisioning_timeout",
		},
		"deleting for a day": {
			after: 24 * time.Hour, given: act(agent.Delete), wantStatus: agent.Deleting,
			wantNudges: 1,
		},
		"stopping for a day": {
			after: 24 * time.Hour, given: act(agent.Stop), wantStatus: agent.Stopped,
			wantNudges: 1,
		},
		"no work": {
			after: 24 * time.Hour,
			given: func(a *agent.Agent) { a.BecameReady(time.Now()) }, wantStatus: agent.Running,
		},
		"restarting for too long": {after: 11 * time.Minute, given: func(a *agent.Agent) {
			a.BecameReady(time.Now())
			_ = a.Act(agent.Restart, agent.Manual, time.Now())
		}, wantStatus: agent.Error, wantFailure: "provisioning_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newSimulation(nil, 0), &nudges{}
			if c.given != nil {
				c.given(w.record)
			}
			now := time.Now().Add(c.after)
			s := &provisioning.Sweeper{Records: records{w}, Nudger: n, Now: func() time.Time { return now }}
			for range 2 { // the second sweep follows immediately and finds no work
				if err := s.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if w.record.Status != c.wantStatus {
				t.Errorf("status = %s, want %s", w.record.Status, c.wantStatus)
			}
			if len(n.ids) != c.wantNudges {
				t.Errorf("nudges = %d, want %d", len(n.ids), c.wantNudges)
			}
			f := w.record.Failure
			if c.wantFailure != "" && (f == nil || f.Code != c.wantFailure || !f.Retryable) {
				t.Errorf("failure = %+v, want a retryable %s", f, c.wantFailure)
			}
		})
	}
}

func act(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) { _ = a.Act(trigger, agent.Manual, time.Now()) }
}

// lateList lets the listed work finish before the sweep acts on the list.
type lateList struct {
	records
	finish func(*agent.Agent)
}

func (l lateList) ListDue(ctx context.Context, now time.Time, limit int) ([]agent.Agent, error) {
	due, err := l.records.ListDue(ctx, now, limit)
	if len(due) > 0 {
		l.finish(l.record)
	}
	return due, err
}

func TestSweep_LeavesFinishedAgentAlone(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(*agent.Agent){
		"became ready": func(a *agent.Agent) { a.BecameReady(time.Now()) },
		"gave up":      func(a *agent.Agent) { a.GiveUp(agent.Failure{Code: "image_pull_failed"}, time.Now()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newSimulation(nil, 0), &nudges{}
			now := time.Now().Add(2 * time.Minute)
			s := &provisioning.Sweeper{
				Records: lateList{records{w}, finish}, Nudger: n,
				Now: func() time.Time { return now },
			}
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !w.record.WorkDueAt.IsZero() {
				t.Errorf("work is due at %v, want none", w.record.WorkDueAt)
			}
			if len(n.ids) != 0 {
				t.Errorf("nudges = %d, want 0", len(n.ids))
			}
		})
	}
}

func TestSweep_ReportsFailedNudges(t *testing.T) {
	t.Parallel()
	w := newSimulation(nil, 0)
	s := &provisioning.Sweeper{
		Records: records{w}, Nudger: &nudges{err: errors.New("down")},
		Now: func() time.Time { return time.Now().Add(2 * time.Minute) },
	}
	if err := s.Sweep(t.Context()); err == nil {
		t.Error("Sweep succeeded with a failed nudge, want an error")
	}
}

func TestDeadLetter_GivesUpProvisioningOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given      func(*agent.Agent)
		wantStatus agent.Status
	}{
		"failed provisioning": {given: func(a *agent.Agent) {
			a.Retry(agent.Failure{Code: "image_pull_failed", Stage: agent.StageReady, Message: "No image."}, time.Now())
		}, wantStatus: agent.Error},
		"failed deletion": {given: act(agent.Delete), wantStatus: agent.Deleting},
		"no work":         {given: func(a *agent.Agent) { a.BecameReady(time.Now()) }, wantStatus: agent.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSimulation(nil, 0)
			c.given(w.record)
			s := &provisioning.Sweeper{Records: records{w}, Nudger: &nudges{}, Now: time.Now}
			if err := s.DeadLetter(t.Context(), w.id); err != nil {
				t.Errorf("DeadLetter: %v", err)
			}
			if w.record.Status != c.wantStatus {
				t.Errorf("status = %s, want %s", w.record.Status, c.wantStatus)
			}
			if c.wantStatus == agent.Error && w.record.Failure.Code != "image_pull_failed" {
				t.Errorf("failure = %+v, want image_pull_failed", w.record.Failure)
			}
			w.record = nil
			if err := s.DeadLetter(t.Context(), w.id); err != nil {
				t.Errorf("DeadLetter for a removed agent: %v", err)
			}
		})
	}
}
