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

// TestRoller_ReachesAgentsThatWereBusyToTheEnd: another release watches an agent, for longer than the last wave looks
// for agents without a pause, or while the agent's maintenance window opens.
func TestRoller_ReachesAgentsThatWereBusyToTheEnd(t *testing.T) {
	t.Parallel()
	for name, opens := range map[string]time.Duration{"at any time": 0, "within its window": 3 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 4)
			id := agentID(2)
			set := func(change func(a *agent.Agent)) {
				a, err := f.store.Load(t.Context(), id)
				if err == nil {
					_, err = f.store.Update(t.Context(), a, change)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			begins := f.clock.Add(opens)
			set(func(a *agent.Agent) {
				a.WatchedBy = "front-1"
				if opens > 0 {
					a.ImagePolicy, a.MaintenanceWindow = image.Window, windowAt(begins)
				}
			})
			if r, _ := f.run(t, 0, false); r.State != release.Done {
				t.Fatalf("the release is %s", r.State)
			}
			worker := &release.Roller{
				Releases: f.store, Agents: f.store, Images: imageReleases{f.store}, Metrics: noMetrics{}, Prober: f,
				Nudger: f, Now: f.Now,
			}
			run := func(until time.Time) {
				for ; f.clock.Before(until); f.clock = f.clock.Add(time.Minute) {
					if err := worker.Run(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			run(begins.Add(time.Hour))
			set(func(a *agent.Agent) { a.WatchedBy = "" })
			run(f.clock.Add(time.Hour))
			if a, _ := f.store.Database.Agent(id); a.Image.Version != "2" {
				t.Errorf("the agent runs version %s an hour after it was let go, want 2", a.Image.Version)
			}
		})
	}
}

// TestRoller_NothingStartsWithTheVersionOfAReleaseThatIsPaused: the operator pauses the last wave because it looks bad.
func TestRoller_NothingStartsWithTheVersionOfAReleaseThatIsPaused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 6)
	f.sound = true
	worker := &release.Roller{
		Releases: f.store, Agents: f.store, Images: imageReleases{f.store}, Metrics: noMetrics{}, Prober: f, Nudger: f,
		Now: f.Now,
	}
	order := func(change func(r *release.Release) error) {
		r, err := f.store.Get(t.Context(), "default-1")
		if err == nil {
			err = change(&r)
		}
		if err == nil {
			_, err = f.store.Save(t.Context(), r, nil)
		}
		if err == nil {
			err = worker.Run(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		f.clock = f.clock.Add(time.Minute)
	}
	starts := func() string {
		current, _ := f.store.Database.Catalog.Current(image.DefaultID, cell)
		return current.Version
	}
	order(func(r *release.Release) error { r.Waves, r.Soak = []int{100}, time.Hour; return nil })
	if got := starts(); got != "2" {
		t.Fatalf("in the last wave, agents start with version %s", got)
	}
	order(func(r *release.Release) error { return r.Act(release.Pause, f.clock) })
	if r, err := f.store.Get(t.Context(), "default-1"); starts() != "1" || err != nil || !r.DueAt.IsZero() {
		t.Errorf("while the release is paused, agents start with version %s, and it is due at %v, %v", starts(),
			r.DueAt, err)
	}
	order(func(r *release.Release) error { return r.Act(release.Resume, f.clock) })
	if r, _ := f.run(t, 0, false); r.State != release.Done || starts() != "2" {
		t.Errorf("after it was resumed, the release is %s, and agents start with version %s", r.State, starts())
	}
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
	r, err := f.store.Get(t.Context(), "default-1")
	if err == nil {
		r.Waves, r.MaxFailed = []int{100}, 20
		_, err = f.store.Save(t.Context(), r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	id := agentID(2)
	f.change(t, id, func(a *agent.Agent) error {
		err := a.Act(agent.Stop, agent.Manual, f.clock)
		a.MarkObserved(f.clock)
		return err
	})
	if r, _ = f.run(t, 0, false); r.State != release.Stopped || r.Counts.Moved == 0 {
		t.Fatalf("the release is %s with %+v, want it stopped in its last wave", r.State, r.Counts)
	}
	f.change(t, id, func(a *agent.Agent) error { return a.Act(agent.Start, agent.Manual, f.clock) })
	if a, _ := f.store.Database.Agent(id); a.Image.Version != "1" {
		t.Errorf("an agent that starts has version %s of the release that stopped", a.Image.Version)
	}
	f.sound = true
	if err = r.Act(release.Resume, f.clock); err == nil {
		_, err = f.store.Save(t.Context(), r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, _ = f.run(t, 0, false)
	current, _ := f.store.Database.Catalog.Current(image.DefaultID, cell)
	if r.State != release.Done || current.Version != "2" {
		t.Errorf("after it was resumed, the release is %s, and agents start with version %s", r.State, current.Version)
	}
}
