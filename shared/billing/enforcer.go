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
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/logevent"
)

// Enforcer applies accounts to agents: it pauses agents when payment stops, and resumes them once it is made up for. It
// also fetches subscriptions whose events may be lost.
//
// Runs may overlap: every action checks the agent's record again, and if an account changes during a run, the next run
// handles it.
type Enforcer struct {
	Store    Store
	Payments Payments
	Agents   agent.Store
	// Now is the clock.
	Now func() time.Time
}

const (
	// enforceBatch limits the accounts of one run. The longest due come first; the rest wait for the next run.
	enforceBatch = 200
	// fetchBatch limits the subscriptions that one run fetches, far below the provider's rate limit.
	fetchBatch = 100
)

// Run enforces every account that is due. A failing account does not stop the others.
func (e *Enforcer) Run(ctx context.Context) error {
	due, err := e.Store.Due(ctx, e.Now(), enforceBatch)
	if err != nil {
		return err
	}
	var errs []error
	fetches := fetchBatch
	for _, id := range due {
		if err := e.enforceAccount(ctx, id, &fetches); err != nil {
			errs = append(errs, fmt.Errorf("enforce account of organization %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// enforceAccount enforces one account. fetches is the number of subscriptions that the run may still fetch.
func (e *Enforcer) enforceAccount(ctx context.Context, organizationID string, fetches *int) error {
	a, err := e.Store.Account(ctx, organizationID)
	if err != nil {
		return err
	}
	a, fetchErr := e.fetchSubscription(ctx, a, fetches)
	if errors.Is(fetchErr, ErrChanged) {
		return nil // the account stays due, and the next run reads its new state
	}
	next, err := e.enforceOnAgents(call.AsSystem(ctx, "billing", organizationID), a)
	if err != nil {
		next = e.Now().Add(recheckInterval) // accounts that fail must not keep the others out of each run
	}
	postponed := e.Store.Postpone(ctx, a, a.nextCheck(next, e.Now()))
	if errors.Is(postponed, ErrChanged) {
		postponed = nil // as above
	}
	return errors.Join(fetchErr, err, postponed)
}

// enforceOnAgents does to the agents what the account requires now. It returns the time of the next check, as
// EnforcementActions does.
func (e *Enforcer) enforceOnAgents(ctx context.Context, a Account) (next time.Time, err error) {
	agents, err := agent.ListAll(ctx, e.Agents)
	if err != nil {
		return time.Time{}, err
	}
	if unknown := a.UnknownPlans(agents); len(unknown) > 0 {
		slog.ErrorContext(ctx, "agents left as they are: this release does not know a plan", logevent.Key,
			logevent.PlanUnknown, "organization_id", a.ID, "plans", unknown)
	}
	actions, next := a.EnforcementActions(agents, e.Now())
	if err := e.applyActions(ctx, a, actions); err != nil {
		return time.Time{}, err
	}
	if len(actions) > 0 {
		slog.InfoContext(ctx, "agents paused or resumed for billing", "organization_id", a.ID,
			"status", a.Status, "plan", a.Plan, "actions", len(actions))
	}
	return next, nil
}

// fetchSubscription fetches the account's subscription if an event about it may be lost. It returns the account to
// enforce: if the provider fails, the account as it is stored. Errors: ErrChanged, Unavailable.
func (e *Enforcer) fetchSubscription(ctx context.Context, a Account, fetches *int) (Account, error) {
	due := a.fetchDueAt()
	if due.IsZero() || e.Now().Before(due) || *fetches == 0 {
		return a, nil
	}
	*fetches--
	before := a
	foreign := refresh(ctx, e.Payments, &a, "", e.Now())
	switch {
	case fault.Is(foreign, fault.Unavailable):
		*fetches = 0 // the provider is down or refuses more calls
		return before, foreign
	case foreign != nil && !errors.Is(foreign, errForeign):
		return before, foreign
	}
	if a.Subscription == before.Subscription {
		return a, foreign
	}
	slog.WarnContext(ctx, "subscription changed at the provider without an event", "organization_id", a.ID,
		"status", a.Subscription.Status, "plan", a.Subscription.Plan)
	ctx = call.WithRequest(call.AsSystem(ctx, string(e.Payments.Provider()), a.ID),
		audit.Request{Action: "ChangeSubscription", RequestID: uuid.NewString()})
	if err := e.Store.Save(ctx, a, ""); err != nil {
		return before, err
	}
	a, err := e.Store.Account(ctx, a.ID)
	return a, errors.Join(foreign, err)
}

// applyActions pauses and resumes agents. Each action gets its own audit entry. It ends when the account changes: the
// next run decides by the new one.
func (e *Enforcer) applyActions(ctx context.Context, decided Account, actions []Action) error {
	var errs []error
	for _, a := range actions {
		name := map[agent.Trigger]string{agent.Withhold: "PauseAgent", agent.Resume: "ResumeAgent"}[a.Trigger]
		ctx := call.WithRequest(ctx, audit.Request{Action: name, RequestID: uuid.NewString()})
		// The commit fails if the organization is written after Change has read it, which is before this check.
		_, err := e.Agents.Change(ctx, a.AgentID, func(g *agent.Agent) error {
			if err := a.Apply(g, e.Now()); err != nil {
				return err
			}
			return e.checkUnchanged(ctx, decided)
		})
		switch {
		case errors.Is(err, ErrChanged):
			return errors.Join(errs...)
		case err != nil && !fault.Is(err, fault.NotFound):
			errs = append(errs, fmt.Errorf("%s agent %s: %w", a.Trigger, a.AgentID, err))
		}
	}
	return errors.Join(errs...)
}

// checkUnchanged checks that an account still is what actions were decided by: a customer may have paid in between.
// Errors: ErrChanged, Unavailable.
func (e *Enforcer) checkUnchanged(ctx context.Context, decided Account) error {
	present, err := e.Store.Account(ctx, decided.ID)
	if err == nil && (present.Plan != decided.Plan || present.Suspended != decided.Suspended ||
		present.Subscription != decided.Subscription) {
		return ErrChanged
	}
	return err
}
