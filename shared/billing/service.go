package billing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Service changes accounts, on events of the payment provider and on commands of the operator.
type Service struct {
	Store    Store
	Payments Payments
	Agents   agent.Store
	// Now is the clock.
	Now func() time.Time
}

// maxTries limits how often updateAccount starts again because the organization was written in between.
const maxTries = 20

// HandleEvent updates an account after an event of the provider. It ignores an event that has been applied, or that
// concerns no organization here. Errors: Unavailable. On any error, the provider must send the event again.
func (s *Service) HandleEvent(ctx context.Context, e Event) error {
	if e.SubscriptionID == "" {
		return nil
	}
	if done, err := s.Store.Applied(ctx, e.ID); done || err != nil {
		return err
	}
	owner, err := s.Payments.Fetch(ctx, e.SubscriptionID)
	if fault.Is(err, fault.NotFound) || err == nil && owner.OrganizationID == "" {
		slog.WarnContext(ctx, "billing event ignored: its subscription belongs to no organization", "event_id", e.ID)
		return nil
	}
	if err != nil {
		return err
	}
	ctx = call.WithRequest(call.AsSystem(ctx, string(s.Payments.Provider()), owner.OrganizationID),
		requestWithAction(ctx, "ChangeSubscription"))
	err = s.updateAccount(ctx, owner.OrganizationID, e.ID, func(a *Account) error {
		// Fetch again between reading the account and committing it. The commit fails if the account was written in
		// between, so of two concurrent events neither can overwrite the other's newer state with an older one.
		err := refresh(ctx, s.Payments, a, e.SubscriptionID, s.Now())
		if errors.Is(err, errForeign) {
			slog.WarnContext(ctx, "billing event applied without a subscription that is unknown to the provider",
				"organization_id", a.ID, "event_id", e.ID)
			return nil
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		slog.ErrorContext(ctx, "billing event ignored: its organization does not exist", "event_id", e.ID)
		return nil
	}
	return err
}

// SetPlan puts an organization on a plan, for the operator. ctx must carry a caller of that organization. If the
// organization exceeds the plan, SetPlan refuses, unless force is set: then the Enforcer pauses the excess agents.
// The next fetch, which is due then, closes the pages on which the organization could pay for what it was granted.
// Errors: NotFound, Conflict, Unavailable.
func (s *Service) SetPlan(ctx context.Context, organizationID string, to plan.Plan, force bool) error {
	return s.updateAccount(ctx, organizationID, "", func(a *Account) error {
		if a.Subscription.Provider == Stripe && a.Subscription.Live() {
			return fault.New(fault.Conflict, "subscription_exists",
				"The organization pays for the %s plan by subscription. Change or cancel it at the payment provider.",
				a.Subscription.Plan)
		}
		if err := s.checkPlanFits(ctx, *a, to); err != nil && !force {
			return err
		}
		granted := Subscription{
			Provider: Manual, Status: Active, Plan: to.ID, CustomerID: a.Subscription.CustomerID, StartedAt: s.Now(),
		}
		if to.ID == plan.Hobby {
			granted.Status = None
		}
		if a.Subscription.Provider == Manual && a.Subscription.Plan == to.ID {
			return nil
		}
		a.Subscription = Subscription{}
		a.ApplySubscription(granted, s.Now())
		a.Plan, a.FetchedAt = to.ID, time.Time{}
		return nil
	})
}

// checkPlanFits is CheckPlanFits with the agents that the organization has after its account was read: the account's
// commit fails if another agent is created, or moved to a larger plan, in between.
func (s *Service) checkPlanFits(ctx context.Context, a Account, to plan.Plan) error {
	agents, err := agent.ListAll(ctx, s.Agents)
	if err != nil {
		return err
	}
	return a.CheckPlanFits(to, agents)
}

// Suspend withholds the service from an organization, or ends that, for the operator. Errors: NotFound, Unavailable.
func (s *Service) Suspend(ctx context.Context, organizationID string, suspended bool) error {
	return s.updateAccount(ctx, organizationID, "", func(a *Account) error {
		a.Suspend(suspended, s.Now())
		return nil
	})
}

// updateAccount reads an account, applies a change and saves it. It starts again if the account was written in between.
func (s *Service) updateAccount(ctx context.Context, organizationID, eventID string, apply func(*Account) error) error {
	for range maxTries {
		a, err := s.Store.Account(ctx, organizationID)
		if err != nil {
			return err
		}
		if err := apply(&a); err != nil {
			return err
		}
		if err := s.Store.Save(ctx, a, eventID); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return errBusy()
}

func errBusy() error {
	return fault.New(fault.Unavailable, "store_unavailable",
		"Other requests are changing the organization. Retry in a few seconds.")
}

// requestWithAction returns the facts about the call in ctx under another action.
func requestWithAction(ctx context.Context, action string) audit.Request {
	r := call.From(ctx).Request
	r.Action = action
	return r
}
