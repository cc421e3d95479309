package simulationtest

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// WorkerStore is one process's client of the database. It implements agent.WorkerStore.
type WorkerStore struct {
	Database *Database
	Process  Stepper
	// Report is called after a commit with events; nil for nothing.
	Report func(ctx context.Context)
}

var _ agent.WorkerStore = WorkerStore{}

// Load implements agent.WorkerStore.
func (s WorkerStore) Load(ctx context.Context, id string) (a agent.Agent, err error) {
	err = s.Process.About(id).Look(ctx, DatabaseService, "load", func() error {
		found, ok := s.Database.Agent(id)
		if !ok {
			return agent.NotFound()
		}
		a = found
		return nil
	})
	return a, read(err)
}

// Update implements agent.WorkerStore.
func (s WorkerStore) Update(ctx context.Context, a agent.Agent, apply func(*agent.Agent)) (agent.Agent, error) {
	writeID, generation, fresh := uuid.NewString(), a.Generation, a.Version != ""
	superseded := false
	var events []event.Draft
	err := attempts(ctx, func(again bool) error {
		if again || !fresh {
			committed := false
			err := s.Process.About(a.ID).Look(ctx, DatabaseService, "read before update", func() error {
				found, ok := s.Database.agents[a.ID]
				if !ok {
					return agent.NotFound()
				}
				a, committed = found.read(), found.writeID == writeID
				return nil
			})
			if err != nil || committed {
				return err
			}
			if superseded = a.Generation != generation; superseded {
				return nil
			}
			fresh = true
		}
		after, changed, _ := a.Edit(func(a *agent.Agent) error { apply(a); return nil }, nil)
		if !changed && again {
			return nil
		}
		events = nil
		if changed {
			events = agent.Events(a, after)
		}
		before, saved := a, a // a late effect must not change what the call returned
		err := s.Process.About(a.ID).Step(ctx, DatabaseService, "commit update", func() (err error) {
			saved, err = s.Database.commitUpdate(before, after, events, changed, writeID)
			return err
		})
		if err == nil {
			a = saved
		}
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	if len(events) > 0 && s.Report != nil {
		s.Report(ctx)
	}
	if superseded {
		return a, agent.ErrSuperseded
	}
	return a, nil
}

// commitUpdate commits a worker's change of an agent.
func (d *Database) commitUpdate(
	before, after agent.Agent, events []event.Draft, changed bool, writeID string,
) (agent.Agent, error) {
	present, ok := d.agents[before.ID]
	if !ok || present.agent.Version != before.Version && !d.Rules.NoPreconditions {
		return before, errConflict
	}
	if !changed {
		return before, nil
	}
	d.Commits++
	saved := d.put(after, writeID)
	d.charge(before.OrganizationID, after.HeldUsage().Minus(before.HeldUsage()))
	d.saveOperations(before, after, "")
	d.report(after.ID, events)
	if d.Moved != nil && before.Cell != after.Cell {
		d.Moved(before, after)
	}
	if d.Updated != nil {
		d.Updated(present.agent, after)
	}
	return saved.read(), nil
}

// charge adds to an organization's usage.
func (d *Database) charge(id string, moved organization.Usage) {
	o, ok := d.organizations[id]
	if !ok || moved == (organization.Usage{}) || d.Rules.LoseUsage {
		return
	}
	o.Usage, o.version = o.Usage.Plus(moved), d.Commits
	d.organizations[id] = o
}

// Remove implements agent.WorkerStore.
func (s WorkerStore) Remove(ctx context.Context, a agent.Agent, d agent.Deletion) error {
	generation, fresh := a.Generation, a.Version != ""
	err := attempts(ctx, func(again bool) error {
		gone := false
		if again || !fresh {
			err := s.Process.Look(ctx, DatabaseService, "read before remove", func() error {
				found, ok := s.Database.agents[a.ID]
				gone = !ok
				if ok {
					a = found.read()
				}
				return nil
			})
			switch {
			case err != nil || gone:
				return err
			case a.Generation != generation:
				return agent.ErrSuperseded
			}
			fresh = true
		}
		before := a
		return s.Process.Step(ctx, DatabaseService, "commit remove", func() error {
			present, ok := s.Database.agents[before.ID]
			if !ok || present.agent.Version != before.Version {
				return errConflict
			}
			s.Database.Commits++
			s.Database.remove(before.ID)
			s.Database.report(before.ID, agent.DeletedEvents(before))
			if s.Database.Removed != nil {
				s.Database.Removed(before.ID, d)
			}
			s.Database.charge(before.OrganizationID, organization.Usage{}.Minus(before.HeldUsage()))
			return nil
		})
	})
	if err == nil && s.Report != nil {
		s.Report(ctx)
	}
	return err
}

// ListDue implements agent.WorkerStore.
func (s WorkerStore) ListDue(ctx context.Context, now time.Time, limit int) (due []agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list due", func() error {
		due = s.Database.filter(func(a *agent.Agent) bool { return !a.WorkDueAt.IsZero() && !a.WorkDueAt.After(now) })
		slices.SortStableFunc(due, func(x, y agent.Agent) int { return x.WorkDueAt.Compare(y.WorkDueAt) })
		due = due[:min(len(due), limit)]
		return nil
	})
	return due, read(err)
}

// ListCallsDue implements agent.WorkerStore.
func (s WorkerStore) ListCallsDue(ctx context.Context, now time.Time, limit int) (due []agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "list calls due", func() error {
		due = s.Database.filter(func(a *agent.Agent) bool { return !a.CallsDueAt.IsZero() && !a.CallsDueAt.After(now) })
		slices.SortStableFunc(due, func(x, y agent.Agent) int { return x.CallsDueAt.Compare(y.CallsDueAt) })
		due = due[:min(len(due), limit)]
		return nil
	})
	return due, read(err)
}

// ListByStatus implements agent.WorkerStore.
func (s WorkerStore) ListByStatus(ctx context.Context, status agent.Status, after string, limit int) (
	found page.Page[agent.Agent], err error,
) {
	found.Items = []agent.Agent{}
	err = s.Process.Look(ctx, DatabaseService, "list by status", func() error {
		all := s.Database.filter(func(a *agent.Agent) bool { return a.Status == status && a.ID > after })
		found.Items = append(found.Items, all[:min(len(all), limit)]...)
		if n := len(found.Items); n == limit {
			found.Next = found.Items[n-1].ID
		}
		return nil
	})
	return found, read(err)
}
