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

// Enforcer applies accounts to agents: it pauses agents when payment stops, and resumes them once it is made up for.
//
// Runs may overlap: every action checks the agent's record again, and if an account changes during a run, the next run
// handles it.
type Enforcer struct {
	Store  Store
	Agents agent.Store
	// Now is the clock.
	Now func() time.Time
}

// enforceBatch limits the accounts of one run. The longest due come first; the rest wait for the next run.
const enforceBatch = 200

// Run enforces every account that is due. A failing account does not stop the others.
func (e *Enforcer) Run(ctx context.Context) error {
	due, err := e.Store.Due(ctx, e.Now(), enforceBatch)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range due {
		if err := e.enforceAccount(ctx, id); err != nil {
			errs = append(errs, fmt.Errorf("enforce account of organization %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (e *Enforcer) enforceAccount(ctx context.Context, organizationID string) error {
	a, err := e.Store.Account(ctx, organizationID)
	if err != nil {
		return err
	}
	ctx = asSystem(ctx, "billing", organizationID)
	agents, err := agent.ListAll(ctx, e.Agents)
	if err != nil {
		return err
	}
	actions, next := a.EnforcementActions(agents, e.Now())
	if err := e.applyActions(ctx, actions); err != nil {
		return err
	}
	if len(actions) > 0 {
		slog.InfoContext(ctx, "agents paused or resumed for billing", "organization_id", organizationID,
			"status", a.Status, "plan", a.Plan, "actions", len(actions))
	}
	if next.Equal(a.DueAt) {
		return nil
	}
	err = e.Store.Postpone(ctx, a, next)
	if errors.Is(err, ErrChanged) {
		return nil // the account stays due, and the next run reads its new state
	}
	return err
}

// applyActions pauses and resumes agents. Each action gets its own audit entry.
func (e *Enforcer) applyActions(ctx context.Context, actions []Action) error {
	var errs []error
	for _, a := range actions {
		name := map[agent.Trigger]string{agent.Pause: "PauseAgent", agent.Resume: "ResumeAgent"}[a.Trigger]
		call := audit.With(ctx, audit.Request{Action: name, RequestID: uuid.NewString()})
		_, err := e.Agents.Change(call, a.AgentID, func(g *agent.Agent) error { return a.Apply(g, e.Now()) })
		if err != nil && !fault.Is(err, fault.NotFound) {
			errs = append(errs, fmt.Errorf("%s agent %s: %w", a.Trigger, a.AgentID, err))
		}
	}
	return errors.Join(errs...)
}
