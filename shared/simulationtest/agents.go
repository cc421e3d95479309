package simulationtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
	"agents.example/controlplane/shared/rehearsal"
)

// Agents is one process's client of the database. It implements agent.Store.
type Agents struct {
	Database *Database
	Process  Stepper
	Nudger   agent.Nudger
	// Creations is the rate limit of creations; zero means no limit.
	Creations ratelimit.Limit
	// Report is called after a commit; nil for nothing.
	Report func(ctx context.Context)
}

var _ agent.Store = Agents{}

// read makes the fault of a failed read.
func read(err error) error {
	var failed *Error
	if errors.As(err, &failed) {
		return unavailable()
	}
	return err
}

func own(d *document, caller identity.Caller) (agent.Agent, error) {
	if d == nil || d.agent.OrganizationID != caller.OrganizationID || caller.OrganizationID == "" {
		return agent.Agent{}, agent.NotFound()
	}
	return d.read(), nil
}

// Get implements agent.Store.
func (s Agents) Get(ctx context.Context, id string) (a agent.Agent, err error) {
	err = s.Process.Look(ctx, DatabaseService, "get agent", func() (err error) {
		a, err = own(s.Database.agents[id], apicall.From(ctx).Caller)
		return err
	})
	return a, read(err)
}

// pollInterval is how often Await reads the record. The real store listens instead.
const pollInterval = 50 * time.Millisecond

// Await implements agent.Store.
func (s Agents) Await(ctx context.Context, id string, until func(agent.Agent) bool) (*agent.Agent, error) {
	for {
		a, err := s.Get(context.WithoutCancel(ctx), id)
		if err != nil {
			return nil, err
		}
		if until(a) {
			return &a, nil
		}
		timer := time.NewTimer(pollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return &a, nil
		}
	}
}

// List implements agent.Store.
func (s Agents) List(ctx context.Context, f agent.Filter, p page.Request) (found page.Page[agent.Agent], err error) {
	err = s.Process.Look(ctx, DatabaseService, "list agents", func() error {
		var all []agent.Agent
		for _, a := range s.Database.Agents() {
			if a.OrganizationID == apicall.From(ctx).Caller.OrganizationID && matches(a, f) {
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

// images is the catalog as a commit reads it.
func (d *Database) images([]string) (image.Set, error) { return d.Catalog, nil }

func matches(a agent.Agent, f agent.Filter) bool {
	return (f.Status == "" || f.Status == a.Status) && (f.Plan == "" || f.Plan == string(a.Plan)) &&
		(f.Region == "" || f.Region == a.Region) && (f.Name == "" || f.Name == a.Name) &&
		(f.Image == "" || f.Image == a.Image.ID) && (f.Version == "" || f.Version == a.Image.Version)
}

// Create implements agent.Store.
func (s Agents) Create(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	c := s.Database.beginChange(ctx, uuid.NewString(), s.Process.Now())
	a.OrganizationID, a.CreatedBy, a.ChangeID = c.call.Caller.OrganizationID, c.call.Caller.ID, c.id
	var created agent.Agent
	err := attempts(ctx, func(bool) (err error) {
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
		case read.target != nil:
			return fault.New(fault.Conflict, "agent_exists", "An agent with this id already exists.")
		}
		a := a
		if err := a.InheritEgress(read.org.Organization); err != nil {
			return err
		}
		if err := a.ChooseImages(agent.Agent{}, s.Database.Catalog); err != nil {
			return err
		}
		before := rehearsal.State{Organization: read.org.Organization}
		if err := a.ChargeCreation(&read.org.Organization, c.call.Caller.Type, s.Creations, c.at); err != nil {
			return err
		}
		read.depends = true
		if c.call.Rehearsal != nil {
			created = c.rehearse(before, a.Clone(), read)
			return nil
		}
		created, err = s.commit(ctx, c, read, agent.Agent{}, a.Clone())
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	c.use()
	if c.call.Rehearsal == nil && !c.call.Attempt.Replayed() && !a.StoringSecrets(c.at) {
		s.nudge(ctx, a.ID)
	}
	return created, nil
}

// charge adds what a change takes up to the organization's usage.
func (s Agents) charge(o *organization.Organization, c *change, before, after agent.Agent) (depends bool, err error) {
	paid := o.Plan
	if s.Database.Rules.AnySize {
		o.Plan = plan.Enterprise
	}
	depends, err = after.ChargeChange(o, c.call.Caller.Type, before)
	o.Plan = paid
	return depends, err
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
		before, err := c.present(read)
		if err != nil {
			return err
		}
		c.call.Entry.SetTarget(audit.Target{Type: "agent", ID: before.ID, Name: before.Name})
		if read.committed {
			result, nudge = before, true
			return nil
		}
		after, changed, err := before.Edit(apply, s.Database.images)
		if err != nil {
			return err
		}
		found := rehearsal.State{Agent: before, Organization: read.org.Organization}
		if !changed {
			result, nudge = before, false
			if c.call.Rehearsal != nil {
				c.call.Rehearsal.Record(found, found)
			}
			return s.keepAnswer(ctx, c, read, before)
		}
		nudge = after.NeedsNudge(before, c.at)
		if read.depends, err = s.charge(&read.org.Organization, c, before, after); err != nil {
			return err
		}
		after.ChangeID = c.id
		if c.call.Rehearsal != nil {
			result, nudge = c.rehearse(found, after, read), false
			return nil
		}
		result, err = s.commit(ctx, c, read, before, after)
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	c.use()
	if nudge {
		s.nudge(ctx, result.ID)
	}
	return result, nil
}
