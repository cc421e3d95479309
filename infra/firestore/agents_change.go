package firestore

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
	"agents.example/controlplane/shared/rehearsal"
	"agents.example/controlplane/shared/secretwrite"
)

// Create implements agent.Store. It fills in OrganizationID, CreatedBy and ChangeID. Further errors: Conflict when the
// id is taken.
func (s *Agents) Create(ctx context.Context, a agent.Agent) (agent.Agent, error) {
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	ref, ok := s.client.agent(a.ID)
	if !ok || ref.ID != a.ID {
		return agent.Agent{}, fmt.Errorf("create an agent: %w", errBadID)
	}
	a.OrganizationID, a.CreatedBy, a.ChangeID = ch.call.Caller.OrganizationID, ch.call.Caller.ID, ch.id
	created, images := agent.Agent{}, s.client.imageRefs(a.ImagesToChooseFrom())
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, ref, images...)
		if err != nil {
			return err
		}
		if answered, ok, err := ch.replayAgent(state.answer); ok {
			created = answered
			return err
		}
		switch {
		case state.committed != "":
			created, err = ch.committedAgent(state, created)
			return err
		case state.target.Exists():
			return fault.New(fault.Conflict, "agent_exists", "An agent with this id already exists.")
		}
		a := a // a try that loses a race decides nothing for the next one
		var doc map[string]any
		if created, doc, err = s.choose(&a, state, ch.id); err != nil {
			return err
		}
		org := state.org
		if err := a.ChargeCreation(&org.Organization, ch.call.Caller.Type, s.client.creations, ch.at); err != nil {
			return err
		}
		if err := ch.admitFree(ctx, state.org.Organization, org.Organization); err != nil {
			return err
		}
		b := s.client.batch().Create(ref, doc)
		if err := s.chargeNewSecrets(ctx, ch, b, &org, a); err != nil {
			return err
		}
		org.saveCreation(b)
		s.client.createMetrics(b, a)
		s.client.saveOperations(b, agent.Agent{}, a)
		ch.writeEvents(b, a.ID, agent.Events(agent.Agent{}, a))
		ch.writeEntry(b, org, agentTarget(a), nil)
		ch.saveAgentAnswer(b, state.answer, "", a)
		created, err = ch.commitAgent(ctx, b, rehearsal.State{Organization: state.org.Organization},
			rehearsal.State{Agent: created, Organization: org.Organization})
		return err
	})
	if err != nil {
		return agent.Agent{}, err
	}
	if !ch.call.Attempt.Replayed() && !a.StoringSecrets(ch.at) {
		s.nudge(ctx, a.ID)
	}
	return created, nil
}

// choose decides what a new agent may reach and which images it runs, and encodes it.
func (s *Agents) choose(a *agent.Agent, state changeState, writeID string) (agent.Agent, map[string]any, error) {
	images, err := s.client.imagesIn(state.also)
	if err == nil {
		err = a.InheritEgress(state.org.Organization)
	}
	if err == nil {
		err = a.ChooseImages(agent.Agent{}, images)
	}
	if err != nil {
		return agent.Agent{}, nil, err
	}
	return storedAgent(*a, writeID)
}

// storedAgent encodes an agent, and returns it as a later read does.
func storedAgent(a agent.Agent, writeID string) (stored agent.Agent, doc map[string]any, err error) {
	doc = encodeAgent(a, writeID)
	stored, _, err = decodeAgent(a.ID, inMap(doc))
	return stored, doc, err
}

// chargeNewSecrets charges for the secrets that an agent is created with.
func (s *Agents) chargeNewSecrets(
	ctx context.Context, ch *change, b *batch, org *organizationState, a agent.Agent,
) error {
	cost := secretwrite.CreationCost(a)
	if cost == (secretwrite.Cost{}) {
		return nil
	}
	service, err := s.client.readOne(ctx, s.client.requestBudget())
	if err != nil {
		return err
	}
	return ch.chargeSecrets(ctx, b, org, service, cost)
}

// Change implements agent.Store.
func (s *Agents) Change(ctx context.Context, id string, apply func(*agent.Agent) error) (agent.Agent, error) {
	ref, ok := s.client.agent(id)
	if !ok {
		return agent.Agent{}, agent.NotFound()
	}
	ch, err := s.client.beginChange(ctx)
	if err != nil {
		return agent.Agent{}, err
	}
	var result agent.Agent
	nudge := false
	err = ch.retryUntilDecided(ctx, func(ctx context.Context, again bool) error {
		state, err := ch.readState(ctx, again, ref)
		if err != nil {
			return err
		}
		if answered, ok, err := ch.replayAgent(state.answer); ok {
			result, nudge = answered, state.answer.own
			return err
		}
		if state.committed != "" {
			result, err = ch.committedAgent(state, result)
			nudge = state.target.Exists() // else the agent was removed since the commit
			return err
		}
		before, err := ch.present(state)
		if err != nil {
			return err
		}
		ch.call.Entry.SetTarget(agentTarget(before))
		after, changed, err := before.Edit(apply, s.client.readImages(ctx))
		if err != nil {
			return err
		}
		if !changed {
			result = before
			return ch.commitAgentAnswer(ctx, state, before)
		}
		nudge = after.NeedsNudge(before, ch.at)
		result, err = s.saveChange(ctx, ch, state, before, after)
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

// commitAgent commits the change of an agent, or records it if the call is rehearsed. It returns the agent with its new
// version. A rehearsed change makes none: the agent keeps the one that it was read with, if it was read.
func (ch *change) commitAgent(ctx context.Context, b *batch, before, after rehearsal.State) (a agent.Agent, err error) {
	a = after.Agent
	if ch.call.Rehearsal == nil {
		a.Version, err = ch.commit(ctx, b)
		return a, err
	}
	a.Version = cmp.Or(before.Agent.Version, versionOf(ch.at))
	after.Agent = a
	ch.call.Rehearsal.Record(before, after)
	return a, nil
}

// committedAgent returns the agent as an earlier commit of the change left it. When others have written it since, that
// is what the last try sent: an earlier one that sent something else had read an older agent, and failed.
func (ch *change) committedAgent(state changeState, sent agent.Agent) (agent.Agent, error) {
	if state.target.Exists() && versionOf(state.target.UpdateTime) == state.committed {
		return agentOf(state.target)
	}
	sent.Version = state.committed
	return sent, nil
}

// saveChange commits a changed agent. The commit fails when another one wrote the agent since it was read, or the
// organization, if the agent starts or its usage changes.
func (s *Agents) saveChange(ctx context.Context, ch *change, state changeState, before, after agent.Agent) (agent.Agent,
	error,
) {
	org := state.org
	depends, err := after.ChargeChange(&org.Organization, ch.call.Caller.Type, before)
	if err != nil {
		return agent.Agent{}, err
	}
	admitted := org.Organization
	if after.Started(before) {
		admitted = state.org.Organization
	}
	announced, err := after.Announced(org.Organization, before)
	if err == nil {
		// An agent whose creation ended halfway takes its place again, with a start or the value that it lacks.
		err = ch.admitFree(ctx, admitted, announced)
	}
	if err != nil {
		return agent.Agent{}, err
	}
	read, err := updateTimeOf(before.Version)
	if err != nil {
		return agent.Agent{}, err
	}
	after.ChangeID = ch.id
	saved, doc, err := storedAgent(after, ch.id)
	if err != nil {
		return agent.Agent{}, err
	}
	ref, _ := s.client.agent(after.ID)
	b := s.client.batch().Update(ref, updates(doc), gcp.LastUpdateTime(read))
	if depends {
		org.saveUsage(b)
	}
	s.client.saveOperations(b, before, after)
	ch.writeEvents(b, after.ID, agent.Events(before, after))
	ch.writeEntry(b, org, agentTarget(after), agent.Changes(before, after))
	ch.saveAgentAnswer(b, state.answer, "", after)
	return ch.commitAgent(ctx, b, rehearsal.State{Agent: before, Organization: state.org.Organization},
		rehearsal.State{Agent: saved, Organization: org.Organization})
}

// nudge asks a worker to look at the agent.
func (s *Agents) nudge(ctx context.Context, id string) {
	if s.nudger == nil || call.From(ctx).Rehearsal != nil { // without a nudger, the sweep nudges what is due
		return
	}
	s.client.announce(ctx, func(ctx context.Context) {
		if err := s.nudger.Nudge(ctx, id); err != nil {
			slog.WarnContext(ctx, "nudge not published; the sweep will repeat it", logevent.Key,
				logevent.NudgeNotPublished, "agent_id", id, "error", err)
		}
	})
}
