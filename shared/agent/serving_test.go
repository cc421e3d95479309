package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
)

// history shows what an agent has done for its users: each change with its minute.
func history(a agent.Agent) string {
	var all []string
	for _, c := range a.ServingHistory() {
		all = append(all, fmt.Sprintf("%s %v", c.Serving, c.Since.Sub(at(0)).Minutes()))
	}
	return strings.Join(all, ", ")
}

// edit changes an agent as a store does.
func edit(t *testing.T, a agent.Agent, change func(*agent.Agent)) agent.Agent {
	t.Helper()
	after, _, err := a.Edit(func(a *agent.Agent) error { change(a); return nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func TestServingHistory_FollowsTheRecord(t *testing.T) {
	t.Parallel()
	act := func(trigger agent.Trigger, n int) func(*agent.Agent) {
		return func(a *agent.Agent) {
			if err := a.Act(trigger, agent.Manual, at(n)); err != nil {
				t.Error(err)
			}
		}
	}
	ready := func(n int) func(*agent.Agent) { return func(a *agent.Agent) { a.BecameReady(at(n)) } }
	applied := func(n int) func(*agent.Agent) { return func(a *agent.Agent) { a.Applied(at(n)) } }
	breaks := func(n, since int) func(*agent.Agent) {
		return func(a *agent.Agent) {
			a.Break(agent.Failure{Code: "pod_crash_loop", Observed: agent.Observation{Since: at(since)}}, at(n))
		}
	}
	sees := func(isReady bool, since int) func(*agent.Agent) {
		return func(a *agent.Agent) { a.See(agent.PodSight{UID: "pod", Ready: isReady, Since: at(since)}) }
	}
	lost := func(lost, since int) func(*agent.Agent) {
		return func(a *agent.Agent) {
			a.See(agent.PodSight{UID: "pod", Ready: true, Lost: at(lost), Since: at(since)})
		}
	}
	givesUp := func(n, since int) func(*agent.Agent) {
		return func(a *agent.Agent) {
			a.GiveUp(agent.Failure{Code: "image_pull_failed", Observed: agent.Observation{Since: at(since)}}, at(n))
		}
	}
	for name, row := range map[string]struct {
		changes []func(*agent.Agent)
		want    string
	}{
		"created": {want: ""},
		"runs":    {changes: []func(*agent.Agent){ready(1)}, want: "up 1"},
		"paused, resumed": {
			changes: []func(*agent.Agent){ready(1), act("pause", 2), act("resume", 3), ready(4)},
			want:    "up 1, idle 2, up 4",
		},
		"breaks before a worker notices": {changes: []func(*agent.Agent){ready(1), breaks(5, 3)}, want: "up 1, down 3"},
		"breaks, and its pod was not ready before the agent ran": {
			changes: []func(*agent.Agent){ready(5), breaks(6, 3)}, want: "up 5, down 5",
		},
		"breaks by a clock that is ahead": {
			changes: []func(*agent.Agent){ready(1), breaks(5, 7)}, want: "up 1, down 5",
		},
		"is never ready": {changes: []func(*agent.Agent){givesUp(10, 1)}, want: "down 10"},
		"a start fails": {
			changes: []func(*agent.Agent){ready(1), act("stop", 2), act("start", 3), givesUp(13, 4)},
			want:    "up 1, idle 2, down 13",
		},
		"a restart fails": {
			changes: []func(*agent.Agent){ready(1), act("restart", 2), applied(3), givesUp(13, 4)},
			want:    "up 1, replacing 3, down 13",
		},
		"pod lost between two looks": {changes: []func(*agent.Agent){ready(1), lost(4, 5)}, want: "up 1, down 4, up 5"},
		"pod lost between two looks, seen twice": {
			changes: []func(*agent.Agent){ready(1), lost(4, 5), lost(4, 5)}, want: "up 1, down 4, up 5",
		},
		"pod lost before the agent ran": {changes: []func(*agent.Agent){ready(5), lost(3, 4)}, want: "up 5"},
		"pod lost while a worker replaces it": {
			changes: []func(*agent.Agent){ready(1), act("restart", 2), applied(3), lost(4, 5), ready(6)},
			want:    "up 1, replacing 3, up 6",
		},
		"recovers": {
			changes: []func(*agent.Agent){ready(1), breaks(5, 3), func(a *agent.Agent) { a.Recover(at(9)) }},
			want:    "up 1, down 3, up 9",
		},
		"a start does not end the downtime": {
			changes: []func(*agent.Agent){ready(1), breaks(5, 3), act("start", 6), ready(8)},
			want:    "up 1, down 3, up 8",
		},
		"a stop ends the downtime": {
			changes: []func(*agent.Agent){ready(1), breaks(5, 3), act("stop", 6)}, want: "up 1, down 3, idle 6",
		},
		"restarted by request": {
			changes: []func(*agent.Agent){ready(1), act("restart", 2), applied(3), ready(4)},
			want:    "up 1, replacing 3, up 4",
		},
		"pod not ready for a while": {
			changes: []func(*agent.Agent){ready(1), sees(true, 1), sees(false, 4), sees(false, 4), sees(true, 7)},
			want:    "up 1, down 4, up 7",
		},
		"pod not ready before it is broken": {
			changes: []func(*agent.Agent){ready(1), sees(false, 4), breaks(14, 4)}, want: "up 1, down 4",
		},
		"pod of a paused agent": {
			changes: []func(*agent.Agent){ready(1), act("pause", 2), sees(true, 1)}, want: "up 1, idle 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
			for _, change := range row.changes {
				a = edit(t, a, change)
			}
			equal(t, "history", history(a), row.want)
		})
	}
}

func TestServingHistory_OfAFormerRelease(t *testing.T) {
	t.Parallel()
	for status, want := range map[agent.Status]string{
		agent.Running: "up 1", agent.Error: "down 2", agent.Stopped: "", agent.Provisioning: "",
	} {
		a := agent.Agent{Status: status, Stages: agent.NewStages(), UpdatedAt: at(2)}
		a.EndStage(agent.StageReady, agent.StageSucceeded, at(1))
		equal(t, string(status), history(a), want)
	}
}

func TestServingHistory_IsBounded(t *testing.T) {
	t.Parallel()
	a := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1", agent.Draft{Name: "a", Plan: "pro"}, at(0))
	a = edit(t, a, func(a *agent.Agent) { a.BecameReady(at(1)) })
	for n := range 100 {
		a = edit(t, a, func(a *agent.Agent) { a.See(agent.PodSight{Ready: n%2 == 1, Since: at(n + 2)}) })
	}
	if got := len(a.ServingHistory()); got != 12 {
		t.Errorf("%d changes, want 12", got)
	}
	if last := a.ServingHistory()[11]; !last.Since.Equal(at(101)) || last.Serving != agent.Up {
		t.Errorf("the last change is %+v, want up since minute 101", last)
	}
}

func TestSee_CountsRestartsOfAllPods(t *testing.T) {
	t.Parallel()
	a := in(agent.Running)
	a.See(agent.PodSight{UID: "new", Ready: true, Since: at(1)})
	equal(t, "a look at a pod without restarts", a.PodRestarts, agent.PodRestarts{})
	for _, step := range []struct {
		pod            string
		restarts, want int64
	}{
		{pod: "a", restarts: 0, want: 0},
		{pod: "a", restarts: 2, want: 2},
		{pod: "a", restarts: 2, want: 2},
		{pod: "a", restarts: 1, want: 2}, // an older list
		{pod: "b", restarts: 0, want: 2},
		{pod: "b", restarts: 3, want: 5},
	} {
		a.See(agent.PodSight{UID: step.pod, Restarts: step.restarts, Ready: true, Since: at(1)})
		equal(t, fmt.Sprintf("restarts after %d of pod %s", step.restarts, step.pod), a.PodRestarts.Total, step.want)
	}
}
