package simulationtest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// change is a change of a client, as it is committed.
type change struct {
	id      string
	at      time.Time
	call    *apicall.Call
	entryID string
	first   func() bool // whether this is the first change of the call that sends a commit
	// keyed: the call's idempotency key covers the change.
	keyed bool
}

func (d *Database) beginChange(ctx context.Context, id string, at time.Time) *change {
	made := apicall.From(ctx)
	return &change{
		id: id, at: at, call: made, entryID: cmp.Or(made.Entry.ID(), id), first: sync.OnceValue(made.Entry.Claim),
		keyed: made.Rehearsal == nil && made.Attempt.Covers(),
	}
}

// use records that the change was decided.
func (c *change) use() {
	if c.keyed {
		c.call.Attempt.Use()
	}
}

// saves reports whether the change stores its answer.
func (c *change) saves(s state) bool { return c.keyed && (!s.answered || c.call.Attempt.Amending()) }

// state is what a change reads before it decides.
type state struct {
	org       organizationDocument
	target    *document // nil if it does not exist
	answer    answer
	answered  bool
	own       bool
	committed bool
	// depends: the commit fails if another one wrote the organization since it was read.
	depends bool
}

func (d *Database) readState(c *change, agentID string) (state, error) {
	s := state{org: d.organizations[c.call.Caller.OrganizationID]}
	if s.org.ID == "" {
		s.org.Organization = organization.New(c.call.Caller.OrganizationID, c.at)
	}
	if rehearsed, ok := c.call.Rehearsal.Present(); ok {
		s.org.Organization = rehearsed.Organization
	}
	s.target = d.agents[agentID]
	s.committed = slices.Contains(d.Entries[c.entryID].Commits, c.id)
	if s.committed {
		c.call.Entry.MarkWritten()
	}
	if c.keyed {
		s.answer, s.answered = d.answers[c.call.Attempt.ID]
		s.answered = s.answered && c.at.Before(s.answer.expiresAt)
		if s.answered && s.answer.fingerprint != c.call.Attempt.Fingerprint {
			return s, idempotency.Reused()
		}
		s.own = s.answered && s.answer.changeID == c.id
	}
	return s, nil
}

// replay returns the stored answer, if that answers the change.
func (c *change) replay(s state) (a agent.Agent, ok bool) {
	if !s.answered || c.call.Attempt.Amending() && !s.own {
		return agent.Agent{}, false
	}
	if !s.own {
		c.call.Attempt.Replay()
	}
	if c.call.Attempt.DiscardsAnswer() || s.answer.record == nil {
		return agent.Agent{}, false
	}
	a = s.answer.record.Clone()
	return a, true
}

// errConflict means that a precondition of a commit failed.
var errConflict = fmt.Errorf("a document was written since it was read")

// commitAgent commits a changed or new agent with everything that belongs to it.
func (d *Database) commitAgent(c *change, s state, before, after agent.Agent, isNew bool) (agent.Agent, error) {
	present, exists := d.agents[after.ID]
	entry, hasEntry := d.Entries[c.entryID]
	switch {
	case d.Rules.NoPreconditions:
	case isNew && exists, !isNew && (!exists || present.version != s.target.version):
		return agent.Agent{}, errConflict
	case s.depends && d.organizations[s.org.ID].version != s.org.version:
		return agent.Agent{}, errConflict
	case c.first() && hasEntry:
		return agent.Agent{}, errConflict
	case c.saves(s) && d.answers[c.call.Attempt.ID].version != s.answer.version:
		return agent.Agent{}, errConflict
	}
	if d.Started != nil && after.Status == agent.Provisioning && before.Status != agent.Provisioning {
		d.Started(after.ID)
	}
	if d.Changed != nil {
		d.Changed(d.organizations[s.org.ID], before, after)
	}
	d.Commits++
	saved := d.put(after, c.id)
	// As in Firestore, a write that changes nothing leaves the version.
	writes := s.depends && !reflect.DeepEqual(s.org.Organization, d.organizations[s.org.ID].Organization)
	writes = writes && (!d.Rules.FreeSizes || after.Plan == before.Plan)
	if writes && (!d.Rules.LoseUsage || after.Status != agent.Deleting) {
		s.org.version = d.Commits
		d.organizations[s.org.ID] = s.org
	}
	d.saveOperations(before, after, c.call.Request.RequestID)
	d.report(after.ID, agent.Events(before, after))
	var changes []audit.Change
	if !isNew {
		changes = agent.Changes(before, after)
	}
	d.writeEntry(c, entry, audit.Target{Type: "agent", ID: after.ID, Name: after.Name}, changes)
	result := saved.read()
	d.saveAnswer(c, s, result)
	c.call.Entry.MarkWritten()
	return result, nil
}

func (d *Database) writeEntry(c *change, entry Entry, target audit.Target, changes []audit.Change) {
	if len(entry.Commits) == 0 {
		entry.Creations++
		entry.Entry = audit.Entry{
			ID: c.entryID, OrganizationID: c.call.Caller.OrganizationID, CreatedAt: c.at, Actor: c.call.Caller,
			Action: c.call.Request.Action, Target: target, Outcome: d.outcome(c), Request: c.call.Request,
			ExpiresAt: d.expiry(c),
		}
	}
	entry.Changes = append(slices.Clip(entry.Changes), changes...)
	entry.Commits = append(slices.Clip(entry.Commits), c.id)
	d.Entries[c.entryID] = entry
}

// outcome is what a change writes into its audit entry.
func (d *Database) outcome(c *change) string {
	if d.Rules.FirstOutcome {
		return audit.Succeeded
	}
	return c.call.Entry.Outcome()
}

// expiry is when the retention of a change's audit entry ends.
func (d *Database) expiry(c *change) time.Time {
	p, err := plan.Get(d.organizations[c.call.Caller.OrganizationID].Plan)
	if err != nil {
		return c.at
	}
	return c.at.AddDate(0, 0, p.AuditRetentionDays)
}

func (d *Database) saveAnswer(c *change, s state, record agent.Agent) {
	if !c.saves(s) {
		return
	}
	kept := answer{
		fingerprint: c.call.Attempt.Fingerprint, changeID: c.id, expiresAt: c.at.Add(idempotency.Retention),
		version: d.Commits,
	}
	if !c.call.Attempt.DiscardsAnswer() {
		kept.record = new(record.Clone().WithoutValues())
	}
	d.answers[c.call.Attempt.ID] = kept
}

func (d *Database) saveOperations(before, after agent.Agent, call string) {
	for _, o := range after.ChangedOperations(before) {
		if d.Rules.TornHistory && !o.Open() {
			continue
		}
		if _, known := d.Operations[o.ID]; !known {
			d.Calls[o.ID], d.Order = call, append(d.Order, o.ID)
		}
		d.Operations[o.ID] = o
	}
}
