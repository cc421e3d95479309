package subscriptions

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

// SubscriptionView is an organization's subscription in an answer.
type SubscriptionView struct {
	Plan               plan.ID           `json:"plan" jsonschema:"The organization's current plan."`
	Status             billing.Status    `json:"status" jsonschema:"Whether the subscription's payments are in order."`
	Interval           *billing.Interval `json:"interval" jsonschema:"The billing interval; null without recurring payments."`
	CurrentPeriodStart *time.Time        `json:"current_period_start" jsonschema:"When the paid period began; null without recurring payments."`
	CurrentPeriodEnd   *time.Time        `json:"current_period_end" jsonschema:"When the paid period ends; null without recurring payments."`
	CancelAtPeriodEnd  bool              `json:"cancel_at_period_end" jsonschema:"Whether the subscription ends with the period."`
	PendingPlan        *plan.ID          `json:"pending_plan" jsonschema:"The plan that takes effect at the end of the period; null if the plan stays."`
	Provider           billing.Provider  `json:"provider" jsonschema:"Who collects the payments."`
}

// Example implements function.Exampler.
func (SubscriptionView) Example() any {
	var a billing.Account
	a.Plan = plan.Startup
	a.Subscription = billing.Subscription{
		Provider: billing.Stripe, Status: billing.Active, Plan: plan.Startup, Interval: billing.Month,
		PeriodStart: time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC),
		PeriodEnd:   time.Date(2026, time.April, 2, 9, 30, 0, 0, time.UTC),
	}
	return view(a, billing.Stripe)
}

// view shows an account. An organization that has never paid has the deployment's provider, and so has one to which the
// operator no longer grants a plan. A plan of a later release that takes effect is not shown, because clients know none
// but those of the description.
func view(a billing.Account, offered billing.Provider) SubscriptionView {
	s := a.Subscription
	v := SubscriptionView{
		Plan: a.Plan, Status: s.Status, CancelAtPeriodEnd: s.CancelAtPeriodEnd, Provider: s.Provider,
		Interval: nullable(s.Interval), PendingPlan: nullable(s.PendingPlan),
		CurrentPeriodStart: nullable(s.PeriodStart.UTC()), CurrentPeriodEnd: nullable(s.PeriodEnd.UTC()),
	}
	if v.Provider == "" || v.Provider == billing.Manual && v.Status == billing.None {
		v.Provider = offered
	}
	if _, err := plan.Get(s.PendingPlan); err != nil {
		v.PendingPlan = nil
	}
	return v
}

func nullable[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Subscription reads the subscription of the caller's organization.
func Subscription(accounts billing.Store, payments billing.Payments) function.Route {
	return function.Route{
		Name: "GetSubscription", Method: http.MethodGet, Path: "/api/v1/billing/subscription",
		Role:   function.RoleAccounts,
		Access: function.Member, Needs: []function.Need{function.Firestore, function.Payments},
		Status: http.StatusOK, Summary: "Get the subscription",
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (SubscriptionView, error) {
			a, err := accounts.Account(ctx, call.From(ctx).Caller.OrganizationID)
			if err != nil {
				return SubscriptionView{}, err
			}
			return view(a, payments.Provider()), nil
		}),
	}
}
