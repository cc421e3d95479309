package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
)

// Enforcer carries out what follows from accounts: agents are paused when payment has stopped, and come back when it is
// made up for. It may run any number of times, at once: every move looks at the agent again, and a run that an account
// changed under leaves the rest to the next.
type Enforcer struct {
	Store  Store
	Agents agent.Store
	// Now is the clock.
	Now func() time.Time
}

// keepBatch bounds one run; what is left over is the next one's, the longest due first.
const keepBatch = 200

// Run looks at every account that is due. The trouble of one does not keep it from the others.
func (k *Enforcer) Run(ctx context.Context) error {
	due, err := k.Store.Due(ctx, k.Now(), keepBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range due {
		if err := k.enforceAccount(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("organization %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (k *Enforcer) enforceAccount(ctx context.Context, organizationID string) error {
	a, err := k.Store.Account(ctx, organizationID)
	if err != nil {
		return err
	}
	ctx = asSystem(ctx, "billing", organizationID)
	agents, err := agent.ListAll(ctx, k.Agents)
	if err != nil {
		return err
	}
	moves, next := a.EnforcementActions(agents, k.Now())
	if err := k.applyActions(ctx, moves); err != nil {
		return err
	}
	if len(moves) > 0 {
		slog.InfoContext(ctx, "agents were moved because of their organization's account", "organization_id",
			organizationID,
			"status", a.Status, "plan", a.Plan, "moves", len(moves))
	}
	if next.Equal(a.DueAt) {
		return nil
	}
	err = k.Store.Postpone(ctx, a, next)
	if errors.Is(err, ErrChanged) {
		return nil // it is still due, and the next run sees what it has become
	}
	return err
}

// applyActions pauses and resumes agents, each with an audit entry of its own.
func (k *Enforcer) applyActions(ctx context.Context, moves []Action) error {
	var errs []error
	for _, m := range moves {
		action := map[agent.Trigger]string{agent.Pause: "PauseAgent", agent.Resume: "ResumeAgent"}[m.Trigger]
		call := audit.With(ctx, audit.Request{Action: action, RequestID: uuid.NewString()})
		_, err := k.Agents.Change(call, m.AgentID, func(g *agent.Agent) error { return m.Apply(g, k.Now()) })
		if err != nil && !fault.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("%s agent %s: %w", m.Trigger, m.AgentID, err))
		}
	}
	return errors.Join(errs...)
}
