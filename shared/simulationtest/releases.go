package simulationtest

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/release"
)

// releaseDocument is the record of a release.
type releaseDocument struct {
	release release.Release
	version int64
}

func (d releaseDocument) read() release.Release {
	r := d.release
	r.Revision = strconv.FormatInt(d.version, 36)
	return r
}

// Releases is one process's client of the records of releases. It implements release.Store and release.Agents.
type Releases struct {
	WorkerStore
}

var (
	_ release.Store  = Releases{}
	_ release.Agents = Releases{}
	_ release.Images = imageReleases{}
)

// commit makes one commit. An answer that is lost is an error: the worker reads the record again.
func (s Releases) commit(ctx context.Context, name string, do func() error) error {
	return read(s.Process.Step(ctx, DatabaseService, name, do))
}

// Create implements release.Store.
func (s Releases) Create(ctx context.Context, r release.Release) (release.Release, error) {
	var former *releaseDocument
	if err := s.Process.Look(ctx, DatabaseService, "read the former release", func() error {
		for _, d := range s.Database.releases {
			if d.release.Image == r.Image && (former == nil || d.release.Number > former.release.Number) {
				former = &d
			}
		}
		return nil
	}); err != nil {
		return r, read(err)
	}
	r.Number = 1
	if former != nil {
		if former.release.Open() {
			return r, release.AlreadyOpen(former.release.ID)
		}
		r.Number = former.release.Number + 1
	}
	r.ID = release.ID(r.Image, r.Number)
	created := r // a late effect must not change what the call returned
	err := s.commit(ctx, "create release", func() error {
		if _, taken := s.Database.releases[r.ID]; taken {
			return release.AlreadyOpen(r.ID)
		}
		if former != nil {
			present := s.Database.releases[former.release.ID]
			if present.version != former.version {
				return release.AlreadyOpen(r.ID)
			}
			present.release.Successor, present.release.DueAt = r.ID, time.Time{}
			s.Database.Commits++
			present.version = s.Database.Commits
			s.Database.releases[present.release.ID] = present
		}
		s.Database.Commits++
		s.Database.releases[r.ID] = releaseDocument{r, s.Database.Commits}
		created = s.Database.releases[r.ID].read()
		return nil
	})
	if err != nil {
		return r, err
	}
	return created, nil
}

// Get implements release.Store.
func (s Releases) Get(ctx context.Context, id string) (r release.Release, err error) {
	err = s.Process.Look(ctx, DatabaseService, "read release", func() error {
		d, ok := s.Database.releases[id]
		if !ok {
			return release.NotFound()
		}
		r = d.read()
		return nil
	})
	return r, read(err)
}

// List implements release.Store.
func (s Releases) List(ctx context.Context, limit int) (found []release.Release, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list releases", func() error {
		for _, id := range slices.Sorted(maps.Keys(s.Database.releases)) {
			found = append(found, s.Database.releases[id].read())
		}
		return nil
	})
	slices.Reverse(found)
	return found[:min(len(found), limit)], read(err)
}

// ListDue implements release.Store.
func (s Releases) ListDue(ctx context.Context, now time.Time) (due []release.Release, err error) {
	all, err := s.List(ctx, 1000)
	return slices.DeleteFunc(all, func(r release.Release) bool { return r.DueAt.IsZero() || r.DueAt.After(now) }), err
}

// Save implements release.Store.
func (s Releases) Save(ctx context.Context, r release.Release, changes []release.Change) (release.Release, error) {
	saved := r
	err := s.commit(ctx, "commit release", func() error {
		present := s.Database.releases[r.ID]
		if present.read().Revision != r.Revision && !s.Database.Rules.NoPreconditions {
			return release.ErrSuperseded
		}
		for _, c := range changes {
			found, ok := s.Database.agents[c.Before.ID]
			if (!ok || found.agent.Version != c.Before.Version) && !s.Database.Rules.NoPreconditions {
				return release.ErrSuperseded
			}
		}
		s.Database.Commits++
		for _, c := range changes {
			s.Database.put(c.After.Clone(), "")
			s.Database.report(c.After.ID, agent.Events(c.Before, c.After))
		}
		s.Database.releases[r.ID] = releaseDocument{r, s.Database.Commits}
		saved.Revision = strconv.FormatInt(s.Database.Commits, 36)
		if s.Database.Released != nil {
			s.Database.Released(present.release, r, changes)
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	return saved, nil
}

// ListAll implements release.Agents.
func (s Releases) ListAll(ctx context.Context, after string, limit int) (found page.Page[agent.Agent], err error) {
	err = s.Process.Look(ctx, DatabaseService, "list all", func() error {
		found.Items = s.Database.filter(func(a *agent.Agent) bool { return a.ID > after })
		if len(found.Items) > limit {
			found.Items = found.Items[:limit]
		}
		if n := len(found.Items); n == limit {
			found.Next = found.Items[n-1].ID
		}
		return nil
	})
	return found, read(err)
}

// ListWatched implements release.Agents.
func (s Releases) ListWatched(ctx context.Context, id string, limit int) (found []agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list watched", func() error {
		found = s.Database.filter(func(a *agent.Agent) bool { return a.WatchedBy == id })
		found = found[:min(len(found), limit)]
		return nil
	})
	return found, read(err)
}

// imageReleases is the part of the catalog that a release needs.
type imageReleases struct{ Releases }

// Get implements release.Images.
func (s imageReleases) Get(ctx context.Context, id string) (i image.Image, err error) {
	err = s.Process.Look(ctx, DatabaseService, "read image", func() error {
		for _, each := range s.Database.Catalog.Catalog {
			if each.ID == id {
				i = each
				return nil
			}
		}
		return image.NotFound()
	})
	return i, read(err)
}

// Put implements release.Images.
func (s imageReleases) Put(ctx context.Context, i image.Image) (image.Image, error) {
	saved := i
	err := s.commit(ctx, "write image", func() error {
		at := slices.IndexFunc(s.Database.Catalog.Catalog, func(each image.Image) bool { return each.ID == i.ID })
		if at < 0 || s.Database.Catalog.Catalog[at].Revision != i.Revision {
			return image.Changed()
		}
		s.Database.Commits++
		saved.Revision = strconv.FormatInt(s.Database.Commits, 36)
		s.Database.Catalog.Catalog = slices.Clone(s.Database.Catalog.Catalog)
		s.Database.Catalog.Catalog[at] = saved
		return nil
	})
	if err != nil {
		return i, err
	}
	return saved, nil
}

// noMetrics knows of no requests.
type noMetrics struct{}

// Load implements release.Metrics.
func (noMetrics) Load(context.Context, []string) (map[string]metrics.Snapshot, error) {
	return nil, nil
}
