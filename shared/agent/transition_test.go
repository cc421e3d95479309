package agent_test

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

func at(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }

func in(status agent.Status) agent.Agent {
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	a.MarkObserved(at(0))
	a.Status = status
	return a
}

// moves is what the interface's table says of every pair of a status and an action: the next status, "same" for a
// success that changes nothing, or "" for a conflict.
func moves() map[agent.Status]map[agent.Trigger]agent.Status {
	const same = "same"
	return map[agent.Status]map[agent.Trigger]agent.Status{
		agent.Pending:      {"resume": same, "start": same, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Provisioning: {"resume": same, "start": same, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Running: {
			"restart": agent.Running, "pause": agent.Paused, "resume": same, "start": same, "stop": agent.Stopped,
			"delete": agent.Deleting,
		},
		agent.Paused:  {"pause": same, "resume": agent.Provisioning, "stop": agent.Stopped, "delete": agent.Deleting},
		agent.Stopped: {"stop": same, "start": agent.Provisioning, "delete": agent.Deleting},
		agent.Error: {"restart": agent.Provisioning, "start": agent.Provisioning, "stop": agent.Stopped,
			"delete": agent.Deleting},
		agent.Deleting: {"delete": same},
	}
}

func TestEveryPairOfStatusAndAction(t *testing.T) {
	t.Parallel()
	actions := []agent.Trigger{agent.Restart, agent.Pause, agent.Resume, agent.Stop, agent.Start, agent.Delete}
	for _, s := range agent.Status("").Values() {
		from := agent.Status(s)
		for _, action := range actions {
			a := in(from)
			before := a.Generation
			err := a.Act(action, agent.Manual, at(1))
			switch want := moves()[from][action]; want {
			case "":
				code := "agent_state_conflict"
				if from == agent.Deleting {
					code = "agent_deleting"
				}
				if fault.Code(err) != code || a.Status != from || a.Generation != before {
					t.Errorf("%s on %s: error %v, status %s", action, from, err, a.Status)
				}
			case "same":
				if err != nil || a.Status != from || a.Generation != before {
					t.Errorf("%s on %s changed something: %v, %s", action, from, err, a.Status)
				}
			default:
				if err != nil || a.Status != want || a.Generation != before+1 || a.Converged() || a.WorkDueAt.IsZero() {
					t.Errorf("%s on %s: error %v, status %s, want %s and work to do", action, from, err, a.Status, want)
				}
			}
		}
	}
}

func TestAllowedActionsAreThoseThatChangeSomething(t *testing.T) {
	t.Parallel()
	for s, byAction := range moves() {
		allowed := in(s).AllowedActions()
		for action, to := range byAction {
			if slices.Contains(allowed, action) != (to != "same") {
				t.Errorf("%s: allowed %v, but %s leads to %s", s, allowed, action, to)
			}
		}
		if len(allowed) > len(byAction) {
			t.Errorf("%s allows %v, the table only %v", s, allowed, byAction)
		}
	}
}

func TestWhatWorkersObserve(t *testing.T) {
	t.Parallel()
	failure := agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady, Message: "it crashes"}
	cases := map[string]struct {
		from    agent.Status
		observe func(*agent.Agent)
		to      agent.Status
		settled bool
	}{
		"ready": {from: agent.Provisioning, observe: func(a *agent.Agent) { a.BecameReady(at(2)) },
			to: agent.Running, settled: true},
		"ready from pending": {from: agent.Pending, observe: func(a *agent.Agent) { a.BecameReady(at(2)) },
			to: agent.Running, settled: true},
		"ready after a restart": {from: agent.Running, observe: func(a *agent.Agent) { a.BecameReady(at(2)) },
			to: agent.Running, settled: true},
		"recovered": {from: agent.Error, observe: func(a *agent.Agent) { a.BecameReady(at(2)) },
			to: agent.Running, settled: true},
		"a transient failure": {from: agent.Provisioning,
			observe: func(a *agent.Agent) { a.Retry(failure, at(2)) }, to: agent.Pending, settled: false},
		"one while running": {from: agent.Running, observe: func(a *agent.Agent) { a.Retry(failure, at(2)) },
			to: agent.Running, settled: false},
		"redelivered": {from: agent.Pending, observe: func(a *agent.Agent) { a.Redelivered() },
			to: agent.Provisioning, settled: false},
		"given up": {from: agent.Provisioning,
			observe: func(a *agent.Agent) { a.GiveUp(failure, at(2)) }, to: agent.Error, settled: true},
		"given up while pending": {from: agent.Pending, observe: func(a *agent.Agent) { a.GiveUp(failure, at(2)) },
			to: agent.Error, settled: true},
		"broken while running": {from: agent.Running, observe: func(a *agent.Agent) { a.GiveUp(failure, at(2)) },
			to: agent.Error, settled: true},
		"expired": {from: agent.Pending,
			observe: func(a *agent.Agent) { a.Deadline = at(1); a.Expire(at(2)) }, to: agent.Error, settled: true},
		"not expired": {from: agent.Pending,
			observe: func(a *agent.Agent) { a.Deadline = at(3); a.Expire(at(2)) }, to: agent.Pending, settled: false},
		"ready does not undo pause": {from: agent.Paused, observe: func(a *agent.Agent) { a.BecameReady(at(2)) },
			to: agent.Paused, settled: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := in(c.from)
			a.Generation++
			c.observe(&a)
			if a.Status != c.to || a.Converged() != c.settled {
				t.Errorf("status %s, converged %t; want %s, %t", a.Status, a.Converged(), c.to, c.settled)
			}
		})
	}
}

func TestExpiryKeepsTheLastProblem(t *testing.T) {
	t.Parallel()
	a := in(agent.Provisioning)
	a.Deadline = at(15)
	a.Retry(agent.Failure{Code: "image_pull_failed", Stage: agent.StageReady, Message: "The image can't be pulled."},
		at(3))
	a.Expire(at(15))
	if a.Status != agent.Error || a.Failure.Code != "image_pull_failed" || !a.Failure.Retryable {
		t.Fatalf("status %s, failure %+v", a.Status, a.Failure)
	}
}

func TestHoldingFollowsTheStatus(t *testing.T) {
	t.Parallel()
	for _, s := range agent.Status("").Values() {
		u, err := in(agent.Status(s)).HeldUsage()
		if err != nil {
			t.Fatal(err)
		}
		deleting, stopped := s == "deleting", s == "stopped"
		if (u.Agents == 0) != deleting || (u.CPUMillis == 0) != (deleting || stopped) ||
			(u.MemoryBytes == 0) != (deleting || stopped) ||
			u.StorageBytes != 40<<30 {
			t.Errorf("%s holds %+v", s, u)
		}
	}
}
