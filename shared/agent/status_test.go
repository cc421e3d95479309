package agent_test

import (
	"slices"
	"testing"

	"agents.example/controlplane/shared/agent"
)

func TestStatus_EveryStatusIsReachedByATransition(t *testing.T) {
	t.Parallel()
	known := agent.Status("").Values()
	reached := map[agent.Status]bool{}
	for _, row := range agent.Transitions() {
		reached[row.To] = true
		for _, s := range append(slices.Clone(row.From), row.To) {
			if !slices.Contains(known, string(s)) {
				t.Errorf("a transition of %q names the status %q, which Values does not list", row.Trigger, s)
			}
		}
	}
	for _, s := range known {
		if !reached[agent.Status(s)] {
			t.Errorf("no transition leads to %q: add a row to Transitions", s)
		}
	}
}

func TestStatus_FactsOfEachStatus(t *testing.T) {
	t.Parallel()
	for _, want := range []struct {
		status               agent.Status
		steady, up, wantsPod bool
	}{
		{status: agent.Pending, steady: false, up: true, wantsPod: true},
		{status: agent.Provisioning, steady: false, up: true, wantsPod: true},
		{status: agent.Running, steady: true, up: true, wantsPod: true},
		{status: agent.Paused, steady: true, up: false, wantsPod: false},
		{status: agent.Stopped, steady: true, up: false, wantsPod: false},
		{status: agent.Error, steady: true, up: false, wantsPod: true},
		{status: agent.Deleting, steady: false, up: false, wantsPod: false},
	} {
		if got := want.status.IsSteady(); got != want.steady {
			t.Errorf("%s: IsSteady = %t, want %t", want.status, got, want.steady)
		}
		if got := want.status.Up(); got != want.up {
			t.Errorf("%s: Up = %t, want %t", want.status, got, want.up)
		}
		if got := (agent.Agent{Status: want.status}).WantsPod(); got != want.wantsPod {
			t.Errorf("%s: WantsPod = %t, want %t", want.status, got, want.wantsPod)
		}
	}
}
