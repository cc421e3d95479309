package provisioning_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// nudges is an agent.Nudger that remembers.
type nudges struct {
	ids []string
	err error
}

func (n *nudges) Nudge(_ context.Context, id string) error {
	n.ids = append(n.ids, id)
	return n.err
}

func TestSweep(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		after   time.Duration // since the agent was created
		prepare func(*agent.Agent)
		status  agent.Status
		nudged  int
		code    string
	}{
		"work that is young":        {after: 30 * time.Second, status: agent.Provisioning},
		"a nudge that was lost":     {after: 2 * time.Minute, status: agent.Provisioning, nudged: 1},
		"provisioning for too long": {after: 15 * time.Minute, status: agent.Error, code: "provisioning_timeout"},
		"a deletion for a long time": {
			after: 24 * time.Hour, prepare: act(agent.Delete), status: agent.Deleting,
			nudged: 1,
		},
		"a stop for a long time": {
			after: 24 * time.Hour, prepare: act(agent.Stop), status: agent.Stopped,
			nudged: 1,
		},
		"what is done": {
			after:   24 * time.Hour,
			prepare: func(a *agent.Agent) { a.BecameReady(time.Now()) }, status: agent.Running,
		},
		"a restart for too long": {after: 11 * time.Minute, prepare: func(a *agent.Agent) {
			a.BecameReady(time.Now())
			_ = a.Act(agent.Restart, agent.Manual, time.Now())
		}, status: agent.Error, code: "provisioning_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, n := newWorld(nil, 0), &nudges{}
			if c.prepare != nil {
				c.prepare(w.record)
			}
			now := time.Now().Add(c.after)
			s := &provisioning.Sweeper{Records: records{w}, Nudger: n, Now: func() time.Time { return now }}
			for range 2 { // the second sweep follows at once and finds nothing to do
				if err := s.Sweep(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if w.record.Status != c.status || len(n.ids) != c.nudged {
				t.Errorf("status %s after %d nudges, want %s, %d", w.record.Status, len(n.ids), c.status, c.nudged)
			}
			if c.code != "" && (w.record.Failure == nil || w.record.Failure.Code != c.code ||
				!w.record.Failure.Retryable) {
				t.Errorf("failure %+v", w.record.Failure)
			}
		})
	}
}

func act(trigger agent.Trigger) func(*agent.Agent) {
	return func(a *agent.Agent) { _ = a.Act(trigger, agent.Manual, time.Now()) }
}

func TestSweepTellsOfNudgesThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(nil, 0)
	s := &provisioning.Sweeper{
		Records: records{w}, Nudger: &nudges{err: errors.New("down")},
		Now: func() time.Time { return time.Now().Add(2 * time.Minute) },
	}
	if err := s.Sweep(t.Context()); err == nil {
		t.Error("a nudge failed and nobody was told")
	}
}

func TestDeadLetter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*agent.Agent)
		status  agent.Status
	}{
		"provisioning in vain": {prepare: func(a *agent.Agent) {
			a.Retry(agent.Failure{Code: "image_pull_failed", Stage: agent.StageReady, Message: "No image."}, time.Now())
		}, status: agent.Error},
		"a deletion in vain": {prepare: act(agent.Delete), status: agent.Deleting},
		"nothing to do":      {prepare: func(a *agent.Agent) { a.BecameReady(time.Now()) }, status: agent.Running},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(nil, 0)
			c.prepare(w.record)
			s := &provisioning.Sweeper{Records: records{w}, Nudger: &nudges{}, Now: time.Now}
			if err := s.DeadLetter(t.Context(), w.id); err != nil || w.record.Status != c.status {
				t.Errorf("status %s: %v", w.record.Status, err)
			}
			if c.status == agent.Error && w.record.Failure.Code != "image_pull_failed" {
				t.Errorf("failure %+v", w.record.Failure)
			}
			w.record = nil
			if err := s.DeadLetter(t.Context(), w.id); err != nil {
				t.Errorf("an agent that is gone: %v", err)
			}
		})
	}
}

// fleet is a provisioning.Fleet of namespaces of an age.
type fleet struct {
	placements []provisioning.Placement
	err        error
	deleted    []string
}

func (f *fleet) Namespaces(context.Context) ([]provisioning.Placement, error) {
	return f.placements, f.err
}

func (f *fleet) DeleteNamespace(_ context.Context, p provisioning.Placement) error {
	f.deleted = append(f.deleted, p.AgentID)
	return nil
}

func TestCollect(t *testing.T) {
	t.Parallel()
	old, young := time.Now().Add(-2*time.Hour), time.Now()
	orphans := func(n int, created time.Time) (list []provisioning.Placement) {
		for i := range n {
			list = append(list, provisioning.Placement{AgentID: fmt.Sprint("orphan-", i), CreatedAt: created})
		}
		return list
	}
	for name, c := range map[string]struct {
		fleet   fleet
		known   bool
		deleted int
		failed  bool
	}{
		"old orphans":          {fleet: fleet{placements: orphans(3, old)}, deleted: 3},
		"young ones":           {fleet: fleet{placements: orphans(3, young)}},
		"too many at once":     {fleet: fleet{placements: orphans(300, old)}, deleted: 5},
		"one in a hundred":     {fleet: fleet{placements: orphans(1000, old)}, deleted: 10},
		"a list that failed":   {fleet: fleet{placements: orphans(3, old), err: errors.New("partial")}, failed: true},
		"namespaces of agents": {fleet: fleet{placements: orphans(3, old)}, known: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(nil, 0)
			if !c.known {
				w.record = nil
			}
			err := (&provisioning.OrphanCollector{
				Records: records{w}, Namespaces: &c.fleet,
				Now: time.Now,
			}).Collect(t.Context())
			if (err != nil) != c.failed || len(c.fleet.deleted) != c.deleted {
				t.Errorf("deleted %d, error %v", len(c.fleet.deleted), err)
			}
		})
	}
}
