package agent_test

import (
	"testing"

	"agents.example/controlplane/shared/agent"
)

// readyStage returns the stage ready.
func readyStage(a agent.Agent) agent.Stage { return a.Stages[len(a.Stages)-1] }

func TestRecover_BeginsTheStageReadyWhenTheAgentBroke(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	for _, name := range agent.StageNames() {
		a.BeginStage(name, at(0))
		a.EndStage(name, agent.StageSucceeded, at(1))
	}
	a.Break(agent.Failure{Code: "pod_crash_loop", Message: "it crashes", Retryable: true}, at(30))
	a.Recover(at(32))
	want := agent.Stage{
		Name: agent.StageReady, Status: agent.StageSucceeded, Attempt: 1, StartedAt: at(30), FinishedAt: at(32),
	}
	equal(t, "Status", a.Status, agent.Running)
	equal(t, "stage", readyStage(a), want)
}

func TestGiveUp_ShowsHowLongTheAgentWaited(t *testing.T) {
	t.Parallel()
	for status, attempt := range map[agent.Status]int{agent.Running: 1, agent.Provisioning: 3} {
		a := in(status)
		ready := &a.Stages[len(a.Stages)-1]
		ready.Attempt, ready.StartedAt = 3, at(0)
		a.Generation++
		a.Applied(at(20))
		a.AwaitReady(nil, at(0), at(21))
		started := at(21)
		if status == agent.Provisioning {
			attempt++ // AwaitReady shows that the stage runs
		}
		a.GiveUp(agent.Failure{Code: "not_ready", Stage: agent.StageReady, Message: "m"}, at(30))
		want := agent.Stage{
			Name: agent.StageReady, Status: agent.StageFailed, Attempt: attempt, StartedAt: started,
			FinishedAt: at(30), ErrorCode: "not_ready", Message: "m",
		}
		equal(t, string("stage of an agent that was "+status), readyStage(a), want)
	}
}
