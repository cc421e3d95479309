package agent_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
)

// wantObserved returns the status to which each observation of a worker moves an agent with work due, by its status.
// Other statuses do not change.
func wantObserved() map[string]map[agent.Status]agent.Status {
	return map[string]map[agent.Status]agent.Status{
		"ready": {
			agent.Pending: agent.Running, agent.Provisioning: agent.Running, agent.Error: agent.Running,
		},
		"transient failure": {agent.Provisioning: agent.Pending},
		"given up":          {agent.Pending: agent.Error, agent.Provisioning: agent.Error, agent.Running: agent.Error},
		"redelivered":       {agent.Pending: agent.Provisioning},
		"withheld": {
			agent.Pending: agent.Paused, agent.Provisioning: agent.Paused, agent.Running: agent.Paused,
			agent.Error: agent.Paused,
		},
	}
}

// TestWorkerTriggers_FollowTheTableFromEveryStatus makes every observation about an agent of every status.
func TestWorkerTriggers_FollowTheTableFromEveryStatus(t *testing.T) {
	t.Parallel()
	failure := agent.Failure{Code: "pod_crash_loop", Stage: agent.StageReady, Message: "it crashes"}
	observations := map[string]func(*agent.Agent){
		"ready":             func(a *agent.Agent) { a.BecameReady(at(2)) },
		"transient failure": func(a *agent.Agent) { a.Retry(failure, at(2)) },
		"given up":          func(a *agent.Agent) { a.GiveUp(failure, at(2)) },
		"redelivered":       func(a *agent.Agent) { a.Redelivered() },
		"withheld":          func(a *agent.Agent) { _ = a.Act(agent.Withhold, agent.Billing, at(2)) },
	}
	for name, observe := range observations {
		for _, s := range agent.Status("").Values() {
			a := in(agent.Status(s))
			a.Generation++
			observe(&a)
			want, moves := wantObserved()[name][agent.Status(s)]
			if !moves {
				want = agent.Status(s)
			}
			if a.Status != want {
				t.Errorf("%s on %s: status %s, want %s", name, s, a.Status, want)
			}
		}
	}
}
