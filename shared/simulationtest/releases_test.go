package simulationtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/release/releasetest"
)

func TestReleases_Conform(t *testing.T) {
	t.Parallel()
	releasetest.Test(t, func(t *testing.T) releasetest.Fixture {
		f := fixture(t)
		records, _ := f.Records.(WorkerStore)
		store := Releases{records}
		org := f.Tenant(t, plan.Enterprise)
		return releasetest.Fixture{
			Processes: [2]release.Store{store, store}, Agents: store, Records: records,
			CreateAgent: func(ctx context.Context, t *testing.T) agent.Agent {
				t.Helper()
				a, err := records.Load(ctx, org.Create(plan.Hobby).ID)
				if err != nil {
					t.Fatal(err)
				}
				return a
			},
		}
	})
}

// errKilled ends a worker.
var errKilled = errors.New("the worker was killed")

// mortal kills the worker at one of its writes: before it, or after it.
type mortal struct {
	Releases
	left  *int
	after bool
}

type mortalImages struct {
	imageReleases
	left  *int
	after bool
}

// write makes a write, unless the worker dies before it.
func write[R any](left *int, after bool, do func() (R, error)) (R, error) {
	var none R
	if *left--; *left != 0 {
		return do()
	}
	if after {
		if _, err := do(); err != nil {
			return none, err
		}
	}
	return none, errKilled
}

func (m mortal) Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error) {
	return write(m.left, m.after, func() (release.Release, error) { return m.Releases.Save(ctx, r, changes) })
}

func (m mortalImages) Put(ctx context.Context, i image.Image) (image.Image, error) {
	return write(m.left, m.after, func() (image.Image, error) { return m.imageReleases.Put(ctx, i) })
}

// fleetOf is a fleet of running agents, and a release that has begun. Agents with an odd number break on the version,
// unless it is sound.
type fleetOf struct {
	store Releases
	clock time.Time
	sound bool
}

func newFleet(t *testing.T, agents int) *fleetOf {
	t.Helper()
	d := NewDatabase()
	d.Catalog = catalog()
	f := &fleetOf{store: Releases{WorkerStore{Database: d, Process: &Direct{}}}, clock: agenttest.Now()}
	for i := range agents {
		a := agent.New(agentID(i), cell, agent.Draft{Name: "a", Plan: plan.Hobby}, f.clock)
		if err := a.ChooseImages(agent.Agent{}, d.Catalog); err != nil {
			t.Fatal(err)
		}
		a.OrganizationID = organizationID
		a.BecameReady(f.clock)
		d.Commits++
		d.put(a, "")
	}
	r, err := release.New(release.Order{
		Image: image.DefaultID, Version: "2", Waves: []int{20, 50, 100}, Soak: time.Minute, MaxFailed: 100,
	}, d.Catalog, nil, f.clock)
	if err == nil {
		_, err = f.store.Create(t.Context(), r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Now is the fleet's clock.
func (f *fleetOf) Now() time.Time { return f.clock }

// Probe implements release.Prober.
func (*fleetOf) Probe(context.Context, agent.Agent) error { return nil }

// Nudge implements agent.Nudger: the agent's pod is replaced.
func (f *fleetOf) Nudge(ctx context.Context, id string) error {
	a, err := f.store.Load(ctx, id)
	if err != nil {
		return err
	}
	_, err = f.store.Update(ctx, a, func(a *agent.Agent) {
		if !f.sound && a.Image.Version == "2" && int(id[len(id)-1])%2 == 1 {
			a.GiveUp(agent.Failure{Code: "pod_crash_loop"}, f.clock)
		}
		a.BecameReady(f.clock)
	})
	return err
}

// worker is a worker of releases.
func (f *fleetOf) worker() *release.Roller {
	return &release.Roller{
		Releases: f.store, Agents: f.store, Images: imageReleases{f.store}, Metrics: noMetrics{}, Prober: f, Nudger: f,
		Now: f.Now,
	}
}

// work runs a worker of releases each minute until a time.
func (f *fleetOf) work(t *testing.T, until time.Time) {
	t.Helper()
	for worker := f.worker(); f.clock.Before(until); f.clock = f.clock.Add(time.Minute) {
		if err := worker.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// order changes the release that has begun, as an operator does.
func (f *fleetOf) order(t *testing.T, change func(r *release.Release) error) {
	t.Helper()
	r, err := f.store.Get(t.Context(), "default-1")
	if err == nil {
		err = change(&r)
	}
	if err == nil {
		_, err = f.store.Save(t.Context(), r, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// act applies an operator's action to the release that has begun.
func (f *fleetOf) act(t *testing.T, action release.Action) {
	t.Helper()
	f.order(t, func(r *release.Release) error { return r.Act(action, f.clock) })
}

// update changes the record of an agent, as a worker does.
func (f *fleetOf) update(t *testing.T, id string, change func(*agent.Agent)) {
	t.Helper()
	a, err := f.store.Load(t.Context(), id)
	if err == nil {
		_, err = f.store.Update(t.Context(), a, change)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// change changes an agent of the fleet, as its client does.
func (f *fleetOf) change(t *testing.T, id string, apply func(*agent.Agent) error) {
	t.Helper()
	f.update(t, id, func(a *agent.Agent) {
		before := a.Clone()
		if err := errors.Join(apply(a), a.ChooseImages(before, f.store.Database.Catalog)); err != nil {
			t.Error(err)
		}
	})
}

// stop stops an agent.
func (f *fleetOf) stop(t *testing.T, id string) {
	t.Helper()
	f.change(t, id, func(a *agent.Agent) error {
		err := a.Act(agent.Stop, agent.Manual, f.clock)
		a.MarkObserved(f.clock)
		return err
	})
}

// version is the version that an agent has.
func (f *fleetOf) version(id string) string {
	a, _ := f.store.Database.Agent(id)
	return a.Image.Version
}

// starts is the version that agents start with.
func (f *fleetOf) starts() string {
	current, _ := f.store.Database.Catalog.Current(image.DefaultID, cell)
	return current.Version
}

// run runs the worker until the release is over. It dies at its nth write; 0 for never. It returns how often it wrote.
func (f *fleetOf) run(t *testing.T, dies int, after bool) (r release.Release, writes int) {
	t.Helper()
	left := dies
	if dies == 0 {
		left = 1 << 30
	}
	begun := left
	worker := f.worker()
	worker.Releases = mortal{Releases: f.store, left: &left, after: after}
	worker.Images = mortalImages{imageReleases{f.store}, &left, after}
	for range 500 {
		if err := worker.Run(t.Context()); err != nil && !errors.Is(err, errKilled) {
			t.Fatal(err)
		}
		for _, a := range f.store.Database.Agents() { // the sweep
			if !a.Converged() {
				if err := f.Nudge(t.Context(), a.ID); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.clock = f.clock.Add(time.Minute)
		r, _ = f.store.Get(t.Context(), "default-1")
		if r.State != release.Running && r.State != release.Reverting {
			return r, begun - left
		}
	}
	t.Fatalf("the release does not end: %+v", r)
	return r, 0
}

// TestRoller_SurvivesADeathAtEachWrite kills the worker before and after every write of a release, and of its way back.
func TestRoller_SurvivesADeathAtEachWrite(t *testing.T) {
	t.Parallel()
	const agents = 9
	want, writes := newFleet(t, agents).run(t, 0, false)
	if want.State != release.Done || want.Counts != (release.Counts{Moved: 9, Updated: 5, Reverted: 4}) {
		t.Fatalf("without a death: %s with %+v", want.State, want.Counts)
	}
	for n := 1; n <= writes; n++ {
		for _, after := range []bool{false, true} {
			f := newFleet(t, agents)
			got, _ := f.run(t, n, after)
			if got.State != want.State || got.Counts != want.Counts {
				t.Errorf("death at write %d of %d, after it %t: %s with %+v, want %s with %+v", n, writes, after,
					got.State, got.Counts, want.State, want.Counts)
			}
		}
	}
	reverted := func(n int, after bool) (release.Release, int, *fleetOf) {
		f := newFleet(t, agents)
		f.run(t, 0, false)
		f.act(t, release.Revert)
		r, writes := f.run(t, n, after)
		return r, writes, f
	}
	_, writes, _ = reverted(0, false)
	for n := 0; n <= writes; n++ {
		for _, after := range []bool{false, true} {
			r, _, f := reverted(n, after)
			if r.State != release.Reverted || r.Counts.Reverted != agents {
				t.Errorf("death at write %d of %d, after it %t: %s with %+v", n, writes, after, r.State, r.Counts)
			}
			for _, a := range f.store.Database.Agents() {
				if a.Image.Version != "1" || a.WatchedBy != "" {
					t.Errorf("death at write %d: agent %s runs version %s, watched by %q", n, a.ID, a.Image.Version,
						a.WatchedBy)
				}
			}
			if got := f.starts(); got != "1" {
				t.Errorf("death at write %d: agents start with version %s", n, got)
			}
		}
	}
	t.Logf("%d writes of a release of %d agents and its way back", writes, agents)
}

// TestRoller_LetsGoOfAgentsOfTheFormerRelease: a release that is done may watch agents that moved within their windows
// when the next one begins.
func TestRoller_LetsGoOfAgentsOfTheFormerRelease(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	if r, _ := f.run(t, 0, false); r.State != release.Done {
		t.Fatalf("the release is %s", r.State)
	}
	id := agentID(2)
	f.update(t, id, func(a *agent.Agent) { a.WatchedBy = "default-1" })
	next, err := release.New(release.Order{
		Image: image.DefaultID, Version: "1", Waves: []int{100}, MaxFailed: 100,
	}, f.store.Database.Catalog, nil, f.clock)
	if err == nil {
		next, err = f.store.Create(t.Context(), next)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.work(t, f.clock.Add(10*time.Minute))
	if next, err = f.store.Get(t.Context(), next.ID); err != nil || next.State != release.Done {
		t.Errorf("the next release is %s, %v: %+v", next.State, err, next)
	}
	if a, err := f.store.Load(t.Context(), id); err != nil || a.Image.Version != "1" || a.WatchedBy != "" {
		t.Errorf("agent: version %s, watched by %q, %v; want version 1 of the next release", a.Image.Version,
			a.WatchedBy, err)
	}
}

// TestRoller_ReturnsTheWaveThatItWatches: an operator reverts a release when its wave looks bad, and does not wait
// until the wave has been watched for its time.
func TestRoller_ReturnsTheWaveThatItWatches(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]func(*agent.Agent){
		"agents that run":     func(*agent.Agent) {},
		"agents that restart": func(a *agent.Agent) { a.PodRestarts.Total += 5 },
		"agents that wait for a machine": func(a *agent.Agent) {
			a.Status, a.Image.Update.State = agent.Error, agent.UpdateMoving
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, 10)
			f.sound = true
			f.order(t, func(r *release.Release) error { r.Soak = 48 * time.Hour; return nil })
			if err := f.worker().Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			moved := 0
			for _, a := range f.store.Database.Agents() {
				if a.WatchedBy != "" {
					moved++
					f.change(t, a.ID, func(a *agent.Agent) error { bad(a); return nil })
				}
			}
			if moved != 2 {
				t.Fatalf("the release watches %d agents, want its first wave of 2", moved)
			}
			f.act(t, release.Revert)
			began := f.clock
			if r, _ := f.run(t, 0, false); r.State != release.Reverted || r.Counts.Reverted != 2 {
				t.Errorf("the release is %s with %+v, want both agents returned", r.State, r.Counts)
			}
			if took := f.clock.Sub(began); took > 10*time.Minute {
				t.Errorf("the way back took %s, want some minutes", took)
			}
		})
	}
}

// TestRoller_ReachesAgentsThatWereBusy: the first lap of a release meets an agent that restarts.
func TestRoller_ReachesAgentsThatWereBusy(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	f.order(t, func(r *release.Release) error { r.Waves = []int{100}; return nil })
	id := agentID(2)
	f.change(t, id, func(a *agent.Agent) error { return a.Act(agent.Restart, agent.Manual, f.clock) })
	if r, _ := f.run(t, 0, false); r.State != release.Done {
		t.Fatalf("the release is %s", r.State)
	}
	if got := f.version(id); got != "2" {
		t.Errorf("the agent that was busy runs version %s after the release", got)
	}
}

// TestRoller_ReturnsAgentsThatStartedWithTheVersion: an agent that was stopped takes the version at its start, and the
// release is reverted after that.
func TestRoller_ReturnsAgentsThatStartedWithTheVersion(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 4)
	id := agentID(2)
	f.stop(t, id)
	r, _ := f.run(t, 0, false)
	f.change(t, id, func(a *agent.Agent) error { return a.Act(agent.Start, agent.Manual, f.clock) })
	if got := f.version(id); r.State != release.Done || got != "2" {
		t.Fatalf("the release is %s, and the agent starts with version %s", r.State, got)
	}
	f.act(t, release.Revert)
	if r, _ = f.run(t, 0, false); r.State != release.Reverted {
		t.Errorf("the release is %s", r.State)
	}
	if got := f.version(id); got != "1" {
		t.Errorf("the agent that started with the version runs %s", got)
	}
}
