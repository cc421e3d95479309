package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/secret"
)

// Agents is one process's client of the database. It implements agent.Store.
type Agents struct {
	Database *Database
	Process  Stepper
	Nudger   agent.Nudger
}

var _ agent.Store = Agents{}

// maxTries bounds the commits whose outcome is unknown, as in the adapter of the real database.
const maxTries = 3

// attempts calls try until its outcome is certain.
func attempts(ctx context.Context, try func(again bool) error) error {
	unknown := 0
	for n := 0; ; n++ {
		if ctx.Err() != nil {
			return unavailable()
		}
		err := try(n > 0)
		var failed *Error
		switch {
		case errors.Is(err, errConflict):
		case errors.As(err, &failed) && failed.Verdict != CrashesBefore && failed.Verdict != CrashesAfter:
			if unknown++; unknown == maxTries {
				return unavailable()
			}
		case errors.As(err, &failed):
			return unavailable()
		default:
			return err
		}
	}
}

// read makes the fault of a failed read.
func read(err error) error {
	var failed *Error
	if errors.As(err, &failed) {
		return unavailable()
	}
	return err
}

func own(d document, exists bool, caller identity.Caller) (agent.Agent, error) {
	if !exists || d.agent.OrganizationID != caller.OrganizationID || caller.OrganizationID == "" {
		return agent.Agent{}, agent.NotFound()
	}
	return d.read(), nil
}

// Get implements agent.Store.
func (s Agents) Get(ctx context.Context, id string) (a agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "get agent", func() (err error) {
		found, ok := s.Database.agents[id]
		a, err = own(found, ok, identity.From(ctx))
		return err
	})
	return a, read(err)
}

// pollInterval is how often Await reads the record. The real store listens instead.
const pollInterval = 50 * time.Millisecond

// Await implements agent.Store.
func (s Agents) Await(ctx context.Context, id string, until func(agent.Agent) bool) (agent.Agent, error) {
	for {
		a, err := s.Get(context.WithoutCancel(ctx), id)
		if err != nil || until(a) {
			return a, err
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return a, nil
		}
	}
}

// List implements agent.Store.
func (s Agents) List(ctx context.Context, f agent.Filter, p page.Request) (found page.Page[agent.Agent], err error) {
	err = s.Process.Look(ctx, DatabaseService, "list agents", func() error {
		var all []agent.Agent
		for _, a := range s.Database.Agents() {
			if a.OrganizationID == identity.From(ctx).OrganizationID && matches(a, f) {
				all = append(all, a)
			}
		}
		slices.SortFunc(all, func(x, y agent.Agent) int {
			return cmp.Or(y.CreatedAt.Compare(x.CreatedAt), strings.Compare(y.ID, x.ID))
		})
		if p.Cursor != "" {
			text, id, _ := strings.Cut(p.Cursor, " ")
			at, err := time.Parse(time.RFC3339Nano, text)
			if _, idErr := uuid.Parse(id); err != nil || idErr != nil {
				return fault.New(fault.BadRequest, "invalid_cursor", "The cursor is not valid.")
			}
			all = slices.DeleteFunc(all, func(a agent.Agent) bool {
				return cmp.Or(at.Compare(a.CreatedAt), strings.Compare(id, a.ID)) <= 0
			})
		}
		limit := p.Limit
		if limit <= 0 {
			limit = page.DefaultLimit
		}
		if limit = min(limit, page.MaxLimit); len(all) > limit {
			all = all[:limit]
			last := all[len(all)-1]
			found.Next = last.CreatedAt.Format(time.RFC3339Nano) + " " + last.ID
		}
		found.Items = all
		return nil
	})
	return found, read(err)
}

func matches(a agent.Agent, f agent.Filter) bool {
	return (f.Status == "" || f.Status == a.Status) && (f.Plan == "" || f.Plan == string(a.Plan)) &&
		(f.Region == "" || f.Region == a.Region) && (f.Name == "" || f.Name == a.Name)
}

// Create implements agent.Store.
func (s Agents) Create(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	size, err := plan.Get(a.Plan)
	if err != nil {
		return agent.Agent{}, err
	}
	c := s.Database.beginChange(ctx, uuid.NewString(), s.Process.Now())
	a.OrganizationID, a.CreatedBy, a.ChangeID = c.caller.OrganizationID, c.caller.ID, c.id
	var created agent.Agent
	err = attempts(ctx, func(bool) error {
		var read state
		if err := s.Process.Look(ctx, DatabaseService, "read before create", func() (err error) {
			read, err = s.Database.readState(c, a.ID)
			return err
		}); err != nil {
			return err
		}
		if answered, ok := c.replay(read); ok {
			created = answered
			return nil
		}
		switch {
		case read.committed:
			created = read.target.read()
			return nil
		case read.exists:
			return fault.New(fault.Conflict, "agent_exists", "An agent with this id already exists.")
		}
		if err := chargeNew(c, &read, a, size); err != nil {
			return err
		}
		var saved agent.Agent // a late effect must not change what the call returned
		err := s.Process.Step(ctx, DatabaseService, "commit create", func() (err error) {
			saved, err = s.Database.commitAgent(c, read, agent.Agent{}, cloneAgent(a), true)
			return err
		})
		if err == nil {
			created = saved
		}
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	c.attempt.Use()
	if !c.attempt.Replayed() && !a.StoringSecrets(c.at) {
		s.nudge(ctx, a.ID)
	}
	return created, nil
}

func chargeNew(c change, s *state, a agent.Agent, size plan.Plan) error {
	if c.caller.Type != identity.System {
		if err := s.org.CheckMayStart(); err != nil {
			return err
		}
	}
	if err := s.org.CheckFits(size); err != nil {
		return err
	}
	return s.org.AddUsage(held(a))
}

// Change implements agent.Store.
func (s Agents) Change(ctx context.Context, id string, apply func(*agent.Agent) error) (agent.Agent, error) {
	c := s.Database.beginChange(ctx, uuid.NewString(), s.Process.Now())
	var result agent.Agent
	nudge := false
	err := attempts(ctx, func(bool) error {
		var read state
		if err := s.Process.Look(ctx, DatabaseService, "read before change", func() (err error) {
			read, err = s.Database.readState(c, id)
			return err
		}); err != nil {
			return err
		}
		if answered, ok := c.replay(read); ok {
			result, nudge = answered, read.own
			return nil
		}
		before, err := own(read.target, read.exists, c.caller)
		if err != nil {
			return err
		}
		c.trail.SetTarget(audit.Target{Type: "agent", ID: before.ID, Name: before.Name})
		if read.committed {
			result, nudge = before, true
			return nil
		}
		after, changed, err := applied(before, apply)
		if err != nil {
			return err
		}
		if !changed {
			result, nudge = before, false
			return s.keepAnswer(ctx, c, read, before)
		}
		nudge = needsNudge(before, after, c.at)
		if err := chargeChanged(c, &read, before, after); err != nil {
			return err
		}
		after.ChangeID = c.id
		var saved agent.Agent // a late effect must not change what the call returned
		err = s.Process.Step(ctx, DatabaseService, "commit change", func() (err error) {
			saved, err = s.Database.commitAgent(c, read, before, after, false)
			return err
		})
		if err == nil {
			result = saved
		}
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	c.attempt.Use()
	if nudge {
		s.nudge(ctx, result.ID)
	}
	return result, nil
}

// keepAnswer stores the answer to a request that found its agent already as it should be.
func (s Agents) keepAnswer(ctx context.Context, c change, read state, a agent.Agent) error {
	if c.attempt == nil || read.answered && !c.amends {
		return nil
	}
	return s.Process.Step(ctx, DatabaseService, "commit answer", func() error {
		if s.Database.answers[c.attempt.ID].version != read.answer.version {
			return errConflict
		}
		s.Database.Commits++
		s.Database.saveAnswer(c, read, a)
		return nil
	})
}

// applied runs a closure on a copy of the agent, and reports whether that changed the record.
func applied(before agent.Agent, apply func(*agent.Agent) error) (after agent.Agent, changed bool, err error) {
	after = cloneAgent(before)
	if err := apply(&after); err != nil {
		return before, false, err
	}
	after.ID, after.OrganizationID, after.ChangeID, after.Version = before.ID, before.OrganizationID, before.ChangeID,
		before.Version
	for _, t := range []*time.Time{
		&after.CreatedAt, &after.UpdatedAt, &after.WorkDueAt, &after.RetryAt, &after.Deadline, &after.Lease.Until,
		&after.StoringUntil,
		&after.RevealedAt,
	} {
		*t = t.UTC() // the database stores no zone
	}
	return after, !sameRecord(before, after), nil
}

func chargeChanged(c change, s *state, before, after agent.Agent) error {
	if after.Started(before) && c.caller.Type != identity.System {
		if err := s.org.CheckMayStart(); err != nil {
			return err
		}
	}
	if after.Plan != before.Plan {
		size, err := plan.Get(after.Plan)
		if err != nil {
			return err
		}
		if err := s.org.CheckFits(size); err != nil {
			return err
		}
	}
	moved := held(after).Minus(held(before))
	if moved.Agents <= 0 && moved.CPUMillis <= 0 && moved.MemoryBytes <= 0 && moved.StorageBytes <= 0 {
		s.org.Usage = s.org.Usage.Plus(moved)
		return nil
	}
	return s.org.AddUsage(moved)
}

func needsNudge(before, after agent.Agent, now time.Time) bool {
	stored := before.StoringSecrets(now) && !after.StoringSecrets(now)
	return after.Generation != before.Generation ||
		after.OperationsDue() && !slices.Equal(open(before), open(after)) || stored && !after.Converged()
}

// open returns the open operations of an agent.
func open(a agent.Agent) []secret.Operation {
	if !slices.ContainsFunc(a.Operations, func(o secret.Operation) bool { return !o.Open() }) {
		return a.Operations
	}
	return slices.DeleteFunc(slices.Clone(a.Operations), func(o secret.Operation) bool { return !o.Open() })
}

func (s Agents) nudge(ctx context.Context, id string) {
	if s.Nudger != nil {
		_ = s.Nudger.Nudge(context.WithoutCancel(ctx), id) // the sweep makes up for it
	}
}

// WorkerStore is one process's client of the database. It implements agent.WorkerStore.
type WorkerStore struct {
	Database *Database
	Process  Stepper
}

var _ agent.WorkerStore = WorkerStore{}

// Load implements agent.WorkerStore.
func (s WorkerStore) Load(ctx context.Context, id string) (a agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "load", func() error {
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
	err := attempts(ctx, func(again bool) error {
		if again || !fresh {
			committed := false
			err := s.Process.Look(ctx, DatabaseService, "read before update", func() error {
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
		after, changed, _ := applied(a, func(a *agent.Agent) error { apply(a); return nil })
		if !changed && again {
			return nil
		}
		before, saved := a, a // a late effect must not change what the call returned
		err := s.Process.Step(ctx, DatabaseService, "commit update", func() (err error) {
			saved, err = s.Database.commitUpdate(before, after, changed, writeID)
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
	if superseded {
		return a, agent.ErrSuperseded
	}
	return a, nil
}

// commitUpdate commits a worker's change of an agent.
func (d *Database) commitUpdate(before, after agent.Agent, changed bool, writeID string) (agent.Agent, error) {
	present, ok := d.agents[before.ID]
	if !ok || strconv.FormatInt(present.version, 36) != before.Version && !d.Rules.NoPreconditions {
		return before, errConflict
	}
	if !changed {
		return before, nil
	}
	d.Commits++
	d.agents[before.ID] = document{agent: after, writeID: writeID, version: d.Commits}
	d.charge(before.OrganizationID, held(after).Minus(held(before)))
	d.saveOperations(before, after, "")
	return d.agents[before.ID].read(), nil
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
func (s WorkerStore) Remove(ctx context.Context, a agent.Agent) error {
	generation, fresh := a.Generation, a.Version != ""
	return attempts(ctx, func(again bool) error {
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
			if !ok || strconv.FormatInt(present.version, 36) != before.Version {
				return errConflict
			}
			s.Database.Commits++
			delete(s.Database.agents, before.ID)
			s.Database.gone[before.ID] = true
			if s.Database.Removed != nil {
				s.Database.Removed(before.ID)
			}
			s.Database.charge(before.OrganizationID, organization.Usage{}.Minus(held(before)))
			return nil
		})
	})
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
