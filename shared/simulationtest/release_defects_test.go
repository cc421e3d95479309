package simulationtest

import (
	"context"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/release"
)

// releaseDefects undo guards of releases.
func releaseDefects() []defect {
	return []defect{
		{
			name: "agents are not watched", undoes: "an agent is watched for the soak before it counts as updated",
			plant: rolling(func(r *release.Roller) {
				now := r.Now
				r.Now = func() time.Time { return now().Add(soak) }
			}),
		},
		{
			name: "a release goes on", undoes: "a release stops when too many agents went back",
			plant: rolling(func(r *release.Roller) {
				r.Releases = misread{
					r.Releases, func(r *release.Release) { r.MaxFailed = 100 },
					func(r *release.Release, recorded release.Release) { r.MaxFailed = recorded.MaxFailed },
				}
			}),
		},
		{
			name: "one wave", undoes: "a wave moves its part of the fleet",
			plant: rolling(func(r *release.Roller) {
				r.Releases = misread{
					r.Releases, func(r *release.Release) { r.Waves = []int{100} },
					func(r *release.Release, recorded release.Release) { r.Waves = recorded.Waves },
				}
			}),
		},
		{
			name: "a sound release stops", undoes: "a release stops for a reason only",
			plant: rolling(func(r *release.Roller) { r.Releases = hasty{r.Releases} }),
		},
		{
			name: "restarts before the update", undoes: "only restarts with the new version speak against it",
			plant: rolling(func(r *release.Roller) { r.Agents = restless{r.Agents} }),
		},
		{
			name: "new agents take the former version", undoes: "a release sets the default version",
			plant: rolling(func(r *release.Roller) { r.Images = lostCatalog{r.Images} }),
		},
		{
			name: "two workers roll the same step", undoes: "a step is committed for the release as it was read",
			plant: focused(arrangeRelease, Plant{Database: DatabaseRules{NoPreconditions: true}}),
		},
	}
}

// rolling changes the worker of releases.
func rolling(roll func(*release.Roller)) Plant { return Plant{Focus: arrangeRelease, Roll: roll} }

// misread makes the worker read another release than the one that is recorded. Its writes keep what the record has.
type misread struct {
	release.Store
	alter   func(*release.Release)
	restore func(r *release.Release, recorded release.Release)
}

func (s misread) ListDue(ctx context.Context, now time.Time) ([]release.Release, error) {
	due, err := s.Store.ListDue(ctx, now)
	for i := range due {
		s.alter(&due[i])
	}
	return due, err
}

func (s misread) Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error) {
	recorded, err := s.Get(ctx, r.ID)
	if err != nil {
		return r, err
	}
	s.restore(&r, recorded)
	saved, err := s.Store.Save(ctx, r, changes)
	s.alter(&saved)
	return saved, err
}

// hasty stops a release that has moved agents.
type hasty struct{ release.Store }

func (s hasty) Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error) {
	if r.State != release.Running || r.Counts.Updated == 0 {
		return s.Store.Save(ctx, r, changes)
	}
	r.State, r.DueAt = release.Stopped, time.Time{}
	if _, err := s.Store.Save(ctx, r, changes); err != nil {
		return r, err
	}
	return r, release.ErrSuperseded // the worker reads that it has stopped
}

// restless reads agents that have restarted often.
type restless struct{ release.Agents }

func (s restless) ListWatched(ctx context.Context, id string, limit int) ([]agent.Agent, error) {
	watched, err := s.Agents.ListWatched(ctx, id, limit)
	for i := range watched {
		watched[i].PodRestarts.Total += 5
	}
	return watched, err
}

// lostCatalog loses what is written into the catalog.
type lostCatalog struct{ release.Images }

func (lostCatalog) Put(_ context.Context, i image.Image) (image.Image, error) { return i, nil }
