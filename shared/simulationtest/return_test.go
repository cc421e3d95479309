package simulationtest

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/release"
)

// TestRoller_ReturnsAnAgentOnceItHasMoved: the snapshot of its data from before the version is on its way to another
// cell, and cannot be restored until it is there.
func TestRoller_ReturnsAnAgentOnceItHasMoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	r, _ := f.run(t, 0, false)
	id := agentID(2)
	move := func(m agent.Move) {
		f.change(t, id, func(a *agent.Agent) error { a.Move = m; return nil })
	}
	version := func() string {
		a, _ := f.store.Database.Agent(id)
		return a.Image.Version
	}
	move(agent.Move{State: agent.MoveAdopting})
	err := r.Act(release.Revert, f.clock)
	if err == nil {
		_, err = f.store.Save(t.Context(), r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	worker := &release.Roller{
		Releases: f.store, Agents: f.store, Images: imageReleases{f.store}, Metrics: noMetrics{}, Prober: f, Nudger: f,
		Now: f.Now,
	}
	const moved = 45
	for minute := 0; r.State != release.Reverted && minute < 90; minute++ {
		if minute == moved {
			move(agent.Move{})
		}
		if err = worker.Run(t.Context()); err == nil {
			r, err = f.store.Get(t.Context(), r.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := version(); minute < moved && got != "2" {
			t.Fatalf("the agent that is being moved runs version %s", got)
		}
		f.clock = f.clock.Add(time.Minute)
	}
	if got := version(); r.State != release.Reverted || got != "1" {
		t.Errorf("the release is %s, and the agent that has moved runs version %s", r.State, got)
	}
}
