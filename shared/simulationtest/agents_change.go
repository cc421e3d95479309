package simulationtest

import (
	"context"
	"errors"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/rehearsal"
)

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

// keepAnswer stores the answer to a request that found its agent already as it should be.
func (s Agents) keepAnswer(ctx context.Context, c *change, read state, a agent.Agent) error {
	if !c.saves(read) {
		return nil
	}
	return s.Process.Step(ctx, DatabaseService, "commit answer", func() error {
		if s.Database.answers[c.call.Attempt.ID].version != read.answer.version {
			return errConflict
		}
		s.Database.Commits++
		s.Database.saveAnswer(c, read, a)
		return nil
	})
}

func (s Agents) nudge(ctx context.Context, id string) {
	if s.Nudger != nil {
		_ = s.Nudger.Nudge(context.WithoutCancel(ctx), id) // the sweep makes up for it
	}
}

// present returns the agent that the change begins from: the stored one, or the outcome of the earlier changes of a
// rehearsed call. Errors: NotFound.
func (c *change) present(s state) (agent.Agent, error) {
	if rehearsed, ok := c.call.Rehearsal.Present(); ok {
		return rehearsed.Agent, nil
	}
	return own(s.target, c.call.Caller)
}

// rehearse records a change of a rehearsed call in place of its commit, and returns the agent as it would be.
func (c *change) rehearse(before rehearsal.State, after agent.Agent, charged state) agent.Agent {
	c.call.Rehearsal.Record(before, rehearsal.State{Agent: after, Organization: charged.org.Organization})
	return after
}

// commit commits a new or changed agent. A commit that fails may still take effect later, while the call goes on: it
// saves nothing that the caller reads.
func (s Agents) commit(ctx context.Context, c *change, read state, before, after agent.Agent) (agent.Agent, error) {
	var saved agent.Agent
	isNew, step := before.ID == "", "commit change"
	if isNew {
		step = "commit create"
	}
	c.first() // claims when the commit is sent, not when it lands
	if err := s.Process.Step(ctx, DatabaseService, step, func() (err error) {
		saved, err = s.Database.commitAgent(c, read, before, after, isNew)
		return err
	}); err != nil {
		return agent.Agent{}, err
	}
	if s.Report != nil {
		s.Report(ctx)
	}
	return saved, nil
}
