package provisioning_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// driftFixture simulates what a DriftChecker reads and writes.
type driftFixture struct {
	*healthFixture
	// differences maps the ids of agents to their problems.
	differences map[string][]provisioning.Problem
	// logs are the kept logs of each cell.
	logs []provisioning.KeptLog
	// during runs while a cell is listed.
	during func()
}

func newDriftFixture() *driftFixture {
	return &driftFixture{healthFixture: newHealthFixture(), differences: map[string][]provisioning.Problem{}}
}

func (s *driftFixture) check(t *testing.T) error {
	t.Helper()
	return s.checker().CheckDrift(t.Context())
}

func (s *driftFixture) checker() *provisioning.DriftChecker {
	return &provisioning.DriftChecker{
		Records: fixtureRecords{s.healthFixture}, Objects: s,
		Nudger: fixtureQueue{s.healthFixture}, Now: func() time.Time { return checkedAt },
	}
}

func (s *driftFixture) Cells() []string { return []string{"cell-1", "cell-2"} }

func (s *driftFixture) Objects(_ context.Context, cell string) (provisioning.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.during != nil {
		s.during()
	}
	if s.failing["objects "+cell] {
		return nil, errDown
	}
	return s, nil
}

func (s *driftFixture) KeptLogs() []provisioning.KeptLog { return s.logs }

func (s *driftFixture) Differences(a agent.Agent) []provisioning.Difference {
	var found []provisioning.Difference
	for _, p := range s.differences[a.ID] {
		found = append(found, provisioning.Difference{Object: "object", Problem: p})
	}
	return found
}

// act moves the agent under test by a client's trigger, half an hour ago, and lets a worker complete that.
func (s *driftFixture) act(t agent.Trigger) {
	s.change(own, func(a *agent.Agent) {
		_ = a.Act(t, agent.Manual, checkedAt.Add(-time.Hour))
		a.MarkObserved(checkedAt.Add(-30 * time.Minute))
	})
}

func TestCheckDrift_ActsOnDifferences(t *testing.T) {
	t.Parallel()
	one := func(p ...provisioning.Problem) func(*driftFixture) {
		return func(s *driftFixture) { s.differences[own] = p }
	}
	for name, row := range map[string]struct {
		given     func(*driftFixture)
		wantCalls string
		wantError bool
		// wantDue: a worker has work to do afterwards.
		wantDue bool
	}{
		"no difference": {given: func(*driftFixture) {}},
		"missing":       {given: one(provisioning.Missing), wantCalls: "update nudge", wantDue: true},
		"changed":       {given: one(provisioning.Changed), wantCalls: "update nudge", wantDue: true},
		"missing and leftover": {
			given: one(provisioning.Missing, provisioning.Leftover), wantCalls: "update nudge", wantDue: true,
		},
		"leftover":         {given: one(provisioning.Leftover), wantCalls: "update nudge", wantDue: true},
		"lost":             {given: one(provisioning.Lost)},
		"lost and missing": {given: one(provisioning.Lost, provisioning.Missing)},
		"stopped agent that runs": {
			given: func(s *driftFixture) {
				one(provisioning.Changed)(s)
				s.act(agent.Stop)
			}, wantCalls: "update nudge", wantDue: true,
		},
		"paused agent that runs": {
			given: func(s *driftFixture) {
				one(provisioning.Changed)(s)
				s.act(agent.Pause)
			}, wantCalls: "update nudge", wantDue: true,
		},
		"agent in error": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.add(failedAt(own, ""))
		}},
		"work is due": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.change(own, func(a *agent.Agent) { _ = a.Act(agent.Restart, "", checkedAt.Add(-time.Hour)) })
		}, wantDue: true},
		"completed just before the list": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.change(own, func(a *agent.Agent) { a.UpdatedAt = checkedAt.Add(-time.Second) })
		}},
		"changed and completed during the list": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.during = func() {
				s.change(own, func(a *agent.Agent) {
					_ = a.Act(agent.Restart, "", checkedAt.Add(time.Second))
					a.BecameReady(checkedAt.Add(2 * time.Second))
				})
			}
		}},
		"changed before the repair": {
			given: func(s *driftFixture) {
				one(provisioning.Missing)(s)
				s.concurrently = func(a *agent.Agent) { _ = a.Act(agent.Stop, agent.Manual, checkedAt) }
			}, wantCalls: "update", wantDue: true,
		},
		"its cell cannot be listed": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.failing["objects cell-1"] = true
		}, wantError: true},
		"another cell cannot be listed": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.failing["objects cell-2"] = true
		}, wantCalls: "update nudge", wantError: true, wantDue: true},
		"a cell that is not configured": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.change(own, func(a *agent.Agent) { a.Cell = "cell-3" })
		}},
		"records cannot be listed": {given: func(s *driftFixture) {
			one(provisioning.Missing)(s)
			s.failing["list running"] = true
		}, wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDriftFixture()
			row.given(s)
			if err := s.check(t); (err != nil) != row.wantError {
				t.Errorf("CheckDrift = %v, want an error: %t", err, row.wantError)
			}
			if got := s.callsAbout(own); got != row.wantCalls {
				t.Errorf("calls = %q, want %q", got, row.wantCalls)
			}
			if due := !s.find(own).Converged(); due != row.wantDue {
				t.Errorf("work due = %t, want %t", due, row.wantDue)
			}
			if got := s.callsAbout(other); got != "" {
				t.Errorf("calls about the other agent = %q, want none", got)
			}
		})
	}
}

// TestCheckDrift_RepairsFewAgentsPerRun makes all agents differ, as after a release with other policies.
func TestCheckDrift_RepairsFewAgentsPerRun(t *testing.T) {
	t.Parallel()
	s := newDriftFixture()
	const differing, most = 250, 100
	for range differing {
		a := runningAgent(uuid.NewString())
		s.add(a)
		s.differences[a.ID] = []provisioning.Problem{provisioning.Changed}
	}
	c := s.checker()
	for run := 1; run <= 3; run++ {
		before := count(s.healthFixture, "update")
		must(t, c.CheckDrift(t.Context()))
		if repaired := count(s.healthFixture, "update") - before; repaired > most {
			t.Fatalf("run %d repaired %d agents, want at most %d", run, repaired, most)
		}
	}
	if n := count(s.healthFixture, "nudge"); n != differing {
		t.Errorf("nudges = %d, want %d: each agent once", n, differing)
	}
}

// TestCheckDrift_AgentsBeyondRepairDoNotStopTheOthers has more agents than a run attends to. No repair helps them.
func TestCheckDrift_AgentsBeyondRepairDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	s := newDriftFixture()
	for range 600 { // more than a page of records
		a := runningAgent(uuid.NewString())
		s.add(a)
		s.differences[a.ID] = []provisioning.Problem{provisioning.Lost}
	}
	last := runningAgent("ffffffff-ffff-4fff-8fff-ffffffffffff")
	s.add(last)
	s.differences[last.ID] = []provisioning.Problem{provisioning.Missing}
	c := s.checker()
	for run := range 20 {
		at := checkedAt.Add(time.Duration(run) * 10 * time.Minute)
		c.Now = func() time.Time { return at }
		must(t, c.CheckDrift(t.Context()))
		if strings.Contains(s.callsAbout(last.ID), "update") {
			return
		}
	}
	t.Error("the agent was not repaired in 20 runs")
}

// TestReconcile_PassesTheGenerationOfTheCluster has a record that is older than its objects, as after a database was
// restored from a backup.
func TestReconcile_PassesTheGenerationOfTheCluster(t *testing.T) {
	t.Parallel()
	for name, trigger := range map[string]agent.Trigger{"running": agent.Restart, "stopped": agent.Stop} {
		inBubble(t, name, func(t *testing.T) {
			w := newWorld(t)
			w.settle()
			newer := w.record()
			newer.Generation = 50
			apply := func() error {
				return w.objects().Apply(t.Context(), newer, agent.StageRuntime, provisioning.RuntimeInput{})
			}
			must(t, apply())
			w.change(act(trigger))
			must(t, w.deliver())
			a := w.record()
			if a.Generation <= newer.Generation || !a.Converged() || a.Failure != nil {
				t.Errorf("generation %d, observed %d, failure %+v; want above %d, converged and without a failure",
					a.Generation, a.ObservedGeneration, a.Failure, newer.Generation)
			}
			var stale *provisioning.Stale
			if err := apply(); !errors.As(err, &stale) || stale.Generation != a.Generation {
				t.Errorf("the cluster answers a former generation with %v, want generation %d", err, a.Generation)
			}
		})
	}
}

// TestReconcile_RepairAppliesEveryStage repairs a running agent: all objects come back.
func TestReconcile_RepairAppliesEveryStage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.settle()
		w.change(func(a *agent.Agent) { a.Repair(time.Now()) })
		if got := w.record().Status; got != agent.Running {
			t.Errorf("status = %s during the repair, want running", got)
		}
		w.settle()
		a := w.record()
		if !settled(a) || !w.existence().Pod || len(a.Unfinished()) > 0 {
			t.Errorf("the agent is %s, converged %t, with %+v, and the stages %v are not done", a.Status, a.Converged(),
				w.existence(), a.Unfinished())
		}
		for _, stage := range agent.StageNames()[:7] {
			if w.applied[stage] != a.Generation {
				t.Errorf("stage %s was applied for generation %d, want %d", stage, w.applied[stage], a.Generation)
			}
		}
	})
}
