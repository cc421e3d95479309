package simulationtest

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// TestRoller_ReturnsAnAgentOnceItHasMoved: the snapshot of its data from before the version is on its way to another
// cell, and cannot be restored until it is there.
func TestRoller_ReturnsAnAgentOnceItHasMoved(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	f.run(t, 0, false)
	id := agentID(2)
	move := func(m agent.Move) {
		f.change(t, id, func(a *agent.Agent) error { a.Move = m; return nil })
	}
	move(agent.Move{State: agent.MoveAdopting})
	f.act(t, release.Revert)
	f.work(t, f.clock.Add(45*time.Minute))
	if got := f.version(id); got != "2" {
		t.Fatalf("the agent that is being moved runs version %s", got)
	}
	move(agent.Move{})
	r, _ := f.run(t, 0, false)
	if got := f.version(id); r.State != release.Reverted || got != "1" {
		t.Errorf("the release is %s, and the agent that has moved runs version %s", r.State, got)
	}
}

// TestRoller_ReachesAgentsThatWereBusyToTheEnd: another release watches an agent, for longer than the last wave looks
// for agents without a pause, or while the agent's maintenance window opens.
func TestRoller_ReachesAgentsThatWereBusyToTheEnd(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]time.Duration{"at any time": 0, "within its window": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 4)
			id := agentID(2)
			begins := f.clock.Add(opens)
			f.update(t, id, func(a *agent.Agent) {
				a.WatchedBy = "front-1"
				if opens > 0 {
					a.ImagePolicy, a.MaintenanceWindow = image.Window, windowAt(begins)
				}
			})
			if r, _ := f.run(t, 0, false); r.State != release.Done {
				t.Fatalf("the release is %s", r.State)
			}
			f.work(t, begins.Add(time.Hour))
			f.update(t, id, func(a *agent.Agent) { a.WatchedBy = "" })
			f.work(t, f.clock.Add(time.Hour))
			if got := f.version(id); got != "2" {
				t.Errorf("the agent runs version %s an hour after it was let go, want 2", got)
			}
		})
	}
}

// TestRoller_NothingStartsWithTheVersionOfAReleaseThatIsPaused: the operator pauses the last wave because it looks bad.
func TestRoller_NothingStartsWithTheVersionOfAReleaseThatIsPaused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	f.sound = true
	f.order(t, func(r *release.Release) error { r.Waves, r.Soak = []int{100}, time.Hour; return nil })
	f.work(t, f.clock.Add(time.Minute))
	if got := f.starts(); got != "2" {
		t.Fatalf("in the last wave, agents start with version %s", got)
	}
	f.act(t, release.Pause)
	f.work(t, f.clock.Add(time.Minute))
	if r, err := f.store.Get(t.Context(), "default-1"); f.starts() != "1" || err != nil || !r.DueAt.IsZero() {
		t.Errorf("while the release is paused, agents start with version %s, and it is due at %v, %v", f.starts(),
			r.DueAt, err)
	}
	f.act(t, release.Resume)
	f.wantDone(t)
}

// windowAt is a maintenance window of four hours that begins in the minute of a time.
func windowAt(t time.Time) *image.MaintenanceWindow {
	days := image.Day("").Values() // Monday first
	return &image.MaintenanceWindow{
		Days:  image.Days{image.Day(days[(int(t.UTC().Weekday())+6)%len(days)])},
		Start: t.UTC().Format("15:04"), Hours: 4, Timezone: "UTC",
	}
}

// TestRoller_NothingStartsWithTheVersionOfAReleaseThatStopped: the last wave has made the version the default one when
// its agents fail. An agent that slept must not start with it until the operator decides.
func TestRoller_NothingStartsWithTheVersionOfAReleaseThatStopped(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	f.order(t, func(r *release.Release) error { r.Waves, r.MaxFailed = []int{100}, 20; return nil })
	id := agentID(2)
	f.stop(t, id)
	if r, _ := f.run(t, 0, false); r.State != release.Stopped || r.Counts.Moved == 0 {
		t.Fatalf("the release is %s with %+v, want it stopped in its last wave", r.State, r.Counts)
	}
	f.change(t, id, func(a *agent.Agent) error { return a.Act(agent.Start, agent.Manual, f.clock) })
	if got := f.version(id); got != "1" {
		t.Errorf("an agent that starts has version %s of the release that stopped", got)
	}
	f.sound = true
	f.act(t, release.Resume)
	f.wantDone(t)
}

// wantDone runs a release that was resumed to its end.
func (f *fleetOf) wantDone(t *testing.T) {
	t.Helper()
	if r, _ := f.run(t, 0, false); r.State != release.Done || f.starts() != "2" {
		t.Errorf("after it was resumed, the release is %s, and agents start with version %s", r.State, f.starts())
	}
}
