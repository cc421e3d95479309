package agent_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/plan"
)

// TestAgent_TellsTheEffectOfAChange checks what rehearsals tell about the agent's pod.
func TestAgent_TellsTheEffectOfAChange(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	ready := began.Add(7 * time.Second)
	value := "debug"
	setEnv := func(a *agent.Agent) error {
		return a.Apply(agent.Patch{Env: map[string]*string{"LEVEL": &value}}, ready)
	}
	act := func(trigger agent.Trigger) func(*agent.Agent) error {
		return func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, ready) }
	}
	snapshot := func(way agent.Consistency) func(*agent.Agent) error {
		return func(a *agent.Agent) error {
			_, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: way}, ready)
			return err
		}
	}
	restore := func(a *agent.Agent) error { return a.Restore(a.Snapshots[0].ID, ready) }
	name := "Renamed"
	for what, row := range map[string]struct {
		given         agent.Status
		change        func(*agent.Agent) error
		wantRestart   bool
		wantDowntime  time.Duration
		wantUnknown   bool
		neverWasReady bool
		wantLoss      bool
	}{
		"restart": {
			given: agent.Running, change: act(agent.Restart), wantRestart: true, wantDowntime: 7 * time.Second,
		},
		"environment": {
			given: agent.Running, change: setEnv, wantRestart: true, wantDowntime: 7 * time.Second,
		},
		"environment of a stopped": {given: agent.Stopped, change: setEnv},
		"environment before a pod": {given: agent.Provisioning, change: setEnv},
		"restart of an error": {
			given: agent.Error, change: act(agent.Restart), wantRestart: true, wantDowntime: 7 * time.Second,
		},
		"restart without a start": {
			given: agent.Error, change: act(agent.Restart), wantRestart: true, wantUnknown: true, neverWasReady: true,
		},
		"start":                     {given: agent.Stopped, change: act(agent.Start)},
		"stop":                      {given: agent.Running, change: act(agent.Stop), wantUnknown: true},
		"deletion":                  {given: agent.Running, change: act(agent.Delete), wantUnknown: true},
		"deletion of a stopped one": {given: agent.Stopped, change: act(agent.Delete)},
		"snapshot by a stop": {
			given: agent.Running, change: snapshot(agent.ConsistentByStop), wantRestart: true,
			wantDowntime: 12 * time.Second,
		},
		"snapshot after a crash":    {given: agent.Running, change: snapshot(agent.ConsistentAfterCrash)},
		"snapshot of a stopped one": {given: agent.Stopped, change: snapshot(agent.ConsistentByStop)},
		"restore": {
			given: agent.Running, change: restore, wantRestart: true, wantUnknown: true, wantLoss: true,
		},
		"restore of a stopped one":  {given: agent.Stopped, change: restore, wantLoss: true},
		"restore of a starting one": {given: agent.Provisioning, change: restore, wantUnknown: true, wantLoss: true},
		"rename": {given: agent.Running, change: func(a *agent.Agent) error {
			return a.Apply(agent.Patch{Name: &name}, ready)
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			before := agent.New("3fa85f64-5717-4562-b3fc-2c963f66afa6", "cell-1",
				agent.Draft{Name: "Agent", Plan: plan.Pro}, began)
			if !row.neverWasReady {
				before.BeginStage(agent.StageReady, began)
				before.EndStage(agent.StageReady, agent.StageSucceeded, ready)
			}
			before.Status, before.LastReadyIsolation = agent.Running, agent.Plain
			before, taken := taken(t, before, 5)
			before.Status = row.given
			after := before.Clone()
			if err := row.change(&after); err != nil {
				t.Fatal(err)
			}
			if got := after.Restarts(before); got != row.wantRestart {
				t.Errorf("Restarts = %t, want %t", got, row.wantRestart)
			}
			downtime, known := after.Downtime(before)
			if downtime != row.wantDowntime || known == row.wantUnknown {
				t.Errorf("Downtime = %s, known: %t; want %s, known: %t", downtime, known, row.wantDowntime,
					!row.wantUnknown)
			}
			var wantSince time.Time
			if row.wantLoss {
				wantSince = taken.CutAt
			}
			if since := after.LosesDataSince(before); !since.Equal(wantSince) {
				t.Errorf("LosesDataSince = %s, want %s", since, wantSince)
			}
		})
	}
}
