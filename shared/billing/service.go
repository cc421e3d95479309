package billing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// Service is where accounts change: by what the provider reports, and by what the operator decides.
type Service struct {
	Store    Store
	Payments Payments
	Agents   agent.Store
	// Now is the clock.
	Now func() time.Time
}

// maxTries bounds how often a change of an account begins again because the organization was written meanwhile.
const maxTries = 20

// HandleEvent brings an account up to date after an event of the provider's. An event that was applied before, or is
// about nothing of ours, changes nothing. Errors: Unavailable, and whatever else keeps the provider trying.
func (d *Service) HandleEvent(ctx context.Context, e Event) error {
	if e.SubscriptionID == "" {
		return nil
	}
	if done, err := d.Store.Applied(ctx, e.ID); done || err != nil {
		return err
	}
	whose, err := d.Payments.Fetch(ctx, e.SubscriptionID)
	if fault.Is(err, fault.NotFound) || err == nil && whose.OrganizationID == "" {
		slog.WarnContext(ctx, "an event is about a subscription of no organization", "event_id", e.ID)
		return nil
	}
	if err != nil {
		return err
	}
	ctx = audit.With(asSystem(ctx, string(d.Payments.Provider()), whose.OrganizationID),
		acting(ctx, "ChangeSubscription"))
	err = d.updateAccount(ctx, whose.OrganizationID, e.ID, func(a *Account) error {
		// Fetched between the read and the commit, whose precondition is that nobody wrote in between: of two events at
		// once, none can put back what the other has brought.
		state, err := d.Payments.Fetch(ctx, e.SubscriptionID)
		if err != nil {
			return err
		}
		a.ApplySubscription(state.Subscription, d.Now())
		return nil
	})
	if fault.Is(err, fault.NotFound) {
		slog.ErrorContext(ctx, "an event is about the subscription of an organization that does not exist", "event_id",
			e.ID)
		return nil
	}
	return err
}

// SetPlan has the operator put the organization of the caller in ctx on a plan. Where it holds more than that plan
// allows it is refused, unless that is forced: then what is over is paused. Errors: NotFound, Conflict, Unavailable.
func (d *Service) SetPlan(ctx context.Context, organizationID string, to plan.Plan, force bool) error {
	agents, err := agent.ListAll(ctx, d.Agents)
	if err != nil {
		return err
	}
	return d.updateAccount(ctx, organizationID, "", func(a *Account) error {
		if a.Subscription.Provider == Stripe && a.Subscription.Live() {
			return fault.New(fault.Conflict, "subscription_exists",
				"The organization pays for the %s plan through a subscription. Change or end it at the payment provider.", a.Subscription.Plan)
		}
		if err := a.CheckPlanFits(to, agents); err != nil && !force {
			return err
		}
		s := Subscription{Provider: Manual, Status: Active, Plan: to.ID, CustomerID: a.Subscription.CustomerID,
			StartedAt: d.Now()}
		if to.ID == plan.Hobby {
			s.Status = None
		}
		if a.Subscription.Provider == Manual && a.Subscription.Plan == to.ID {
			return nil
		}
		a.Subscription = Subscription{}
		a.ApplySubscription(s, d.Now())
		a.Plan = to.ID
		return nil
	})
}

// Suspend has the operator withhold the service from an organization, or end that. Errors: NotFound, Unavailable.
func (d *Service) Suspend(ctx context.Context, organizationID string, suspended bool) error {
	return d.updateAccount(ctx, organizationID, "", func(a *Account) error {
		a.Suspend(suspended, d.Now())
		return nil
	})
}

// updateAccount reads an account, changes it and saves it, until nobody wrote it meanwhile.
func (d *Service) updateAccount(ctx context.Context, organizationID, eventID string, apply func(*Account) error) error {
	for range maxTries {
		a, err := d.Store.Account(ctx, organizationID)
		if err != nil {
			return err
		}
		if err := apply(&a); err != nil {
			return err
		}
		if err := d.Store.Save(ctx, a, eventID); !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fault.New(fault.Unavailable, "store_unavailable",
		"The organization is changed too often at the moment. Try again in a few seconds.")
}

// acting is the call's facts with an action of the control plane's own.
func acting(ctx context.Context, action string) audit.Request {
	r := audit.From(ctx)
	r.Action = action
	return r
}
