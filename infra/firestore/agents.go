package firestore

import (
	"context"
	"fmt"
	"reflect"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/plan"
)

// Agents implements agent.Store.
type Agents struct {
	client *Client
	nudger agent.Nudger
}

var _ agent.Store = (*Agents)(nil)

// Get implements agent.Store. It makes no call when the agent was read together with the caller's key.
func (s *Agents) Get(ctx context.Context, id string) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	fetched, ok := document.Fetched(ctx, agent.Document(id))
	snap, _ := fetched.(*gcp.DocumentSnapshot)
	if !ok || snap == nil {
		snaps, err := s.client.read(ctx, ref)
		if err != nil {
			return agent.Agent{}, err
		}
		snap = snaps[0]
	}
	return ownAgent(snap, identity.From(ctx))
}

// ownAgent makes the record of a document, if it is one of the caller's organization. Errors: NotFound.
func ownAgent(snap *gcp.DocumentSnapshot, caller identity.Caller) (agent.Agent, error) {
	if !snap.Exists() {
		return agent.Agent{}, agent.NotFound()
	}
	a, err := agentOf(snap)
	if err != nil {
		return agent.Agent{}, err
	}
	if a.OrganizationID != caller.OrganizationID || caller.OrganizationID == "" {
		return agent.Agent{}, agent.NotFound()
	}
	return a, nil
}

// List implements agent.Store.
func (s *Agents) List(ctx context.Context, f agent.Filter, p page.Request) (page.Page[agent.Agent], error) {
	return list(ctx, s.client, listing[agent.Agent]{
		query:  agentQuery(identity.From(ctx).OrganizationID, f),
		tie:    gcp.DocumentID,
		decode: agentOf,
		place:  func(a agent.Agent) place { return place{a.CreatedAt, a.ID} },
	}, p)
}

func agentQuery(organizationID string, f agent.Filter) query {
	q := query{collection: agentCollection, equal: []equality{{"organization_id", organizationID}}}
	for _, e := range []equality{{"status", string(f.Status)}, {"plan", f.Plan}, {"region", f.Region},
		{"name", f.Name}} {
		if e.value != "" {
			q.equal = append(q.equal, e)
		}
	}
	return q
}

// Create implements agent.Store. It fills in OrganizationID, CreatedBy and ChangeID. Further errors: Conflict when the
// id is taken.
func (s *Agents) Create(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	ch, err := s.client.begin(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	ref, ok := s.client.agent(a.ID)
	if !ok || ref.ID != a.ID {
		return agent.Agent{}, fmt.Errorf("create an agent: %w", errBadID)
	}
	size, err := plan.Get(a.Plan)
	if err != nil {
		return agent.Agent{}, fmt.Errorf("create an agent: %w", err)
	}
	a.OrganizationID, a.CreatedBy, a.ChangeID = ch.caller.OrganizationID, ch.caller.ID, ch.id
	doc := documentOf(a)
	doc.WriteID = ch.id
	created := doc.agent(a.ID)
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		seen, err := ch.readState(ctx, again, ref)
		if err != nil {
			return err
		}
		if kept, ok, err := ch.answeredAgent(seen.kept); ok {
			created = kept
			return err
		}
		switch {
		case seen.committed && seen.target.Exists():
			created, err = agentOf(seen.target)
			return err
		case seen.committed:
			return nil
		case seen.target.Exists():
			return fault.New(fault.Conflict, "agent_exists", "An agent with this id exists already.")
		}
		org := seen.org
		if err := ch.mayStart(org); err != nil {
			return err
		}
		if err := org.CheckFits(size); err != nil {
			return err
		}
		if err := org.addUsage(holding(a)); err != nil {
			return err
		}
		b := s.client.batch().Create(ref, doc)
		org.save(b)
		s.client.beginMetrics(b, a)
		s.client.saveOperations(b, agent.Agent{}, a)
		ch.writeEntry(b, org, targetOf(a), nil)
		ch.keepAgent(b, seen.kept, a.ID, "", doc)
		created.Version, err = ch.commit(ctx, b)
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	if !ch.attempt.Replayed() && !a.StoringSecrets(ch.at) {
		s.nudge(ctx, a.ID)
	}
	return created, nil
}

// Change implements agent.Store.
func (s *Agents) Change(ctx context.Context, id string, apply func(*agent.Agent) error) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	ch, err := s.client.begin(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	var result agent.Agent
	nudge := false
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		seen, err := ch.readState(ctx, again, ref)
		if err != nil {
			return err
		}
		if kept, ok, err := ch.answeredAgent(seen.kept); ok {
			result, nudge = kept, seen.kept.own
			return err
		}
		before, err := ownAgent(seen.target, ch.caller)
		if err != nil {
			return err
		}
		ch.trail.SetTarget(targetOf(before))
		if seen.committed {
			result, nudge = before, true
			return nil
		}
		after, changed, err := applied(before, apply)
		if err != nil {
			return err
		}
		if !changed {
			result = before
			return ch.keepUnchanged(ctx, seen.kept, before)
		}
		nudge = after.Generation != before.Generation ||
			after.OperationsDue() && !reflect.DeepEqual(openOperations(after), openOperations(before)) ||
			// its creation was not nudged for
			before.StoringSecrets(ch.at) && !after.StoringSecrets(ch.at) && !after.Converged()
		result, err = s.write(ctx, ch, seen, before, after)
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	if nudge {
		s.nudge(ctx, result.ID)
	}
	return result, nil
}

// write commits a changed agent, if neither it nor a needed organization was written since they were read.
func (s *Agents) write(ctx context.Context, ch change, seen changeRead, before, after agent.Agent) (agent.Agent,
	error) {
	org := seen.org
	if after.Started(before) {
		if err := ch.mayStart(org); err != nil {
			return agent.Agent{}, err
		}
	}
	if after.Plan != before.Plan {
		size, err := plan.Get(after.Plan)
		if err != nil {
			return agent.Agent{}, fmt.Errorf("change an agent's plan: %w", err)
		}
		if err := org.CheckFits(size); err != nil {
			return agent.Agent{}, err
		}
	}
	moved := holding(after).Minus(holding(before))
	if err := org.addUsage(moved); err != nil {
		return agent.Agent{}, err
	}
	read, err := writtenAt(before.Version)
	if err != nil {
		return agent.Agent{}, err
	}
	after.ChangeID = ch.id
	doc := documentOf(after)
	doc.WriteID = ch.id
	ref, _ := s.client.agent(after.ID)
	b := s.client.batch().Update(ref, fields(doc), gcp.LastUpdateTime(read))
	if moved != (organization.Usage{}) {
		org.save(b)
	}
	s.client.saveOperations(b, before, after)
	ch.writeEntry(b, org, targetOf(after), changesOf(before, after))
	ch.keepAgent(b, seen.kept, after.ID, "", doc)
	written := doc.agent(after.ID)
	written.Version, err = ch.commit(ctx, b)
	return written, err
}

// holding is what an agent takes of its organization. An agent on a plan that no longer exists counts as holding
// nothing, so that it can still be stopped and deleted; the recount of the usage mends the rest.
func holding(a agent.Agent) organization.Usage {
	u, err := a.HeldUsage()
	if err != nil {
		return organization.Usage{}
	}
	return u
}

func targetOf(a agent.Agent) audit.Target { return audit.Target{Type: "agent", ID: a.ID, Name: a.Name} }
