package subscriptions

import (
	"context"
	"net/http"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
	"agents.example/controlplane/shared/ratelimit"
)

// SessionView is a page of the payment provider.
type SessionView struct {
	URL       string    `json:"url" jsonschema:"The page to send the user to."`
	ExpiresAt time.Time `json:"expires_at" jsonschema:"The time until which the page can be opened."`
}

// Example implements function.Exampler.
func (SessionView) Example() any {
	return SessionView{"https://checkout.stripe.com/c/pay/cs_1", time.Date(2026, time.March, 3, 9, 30, 0, 0, time.UTC)}
}

type checkoutInput struct {
	Body struct {
		Plan     plan.ID          `json:"plan" jsonschema:"The plan to buy."`
		Interval billing.Interval `json:"interval,omitempty" jsonschema:"The billing interval; month by default."`
	} `json:"body"`
}

// Example implements function.Exampler.
func (checkoutInput) Example() any {
	var in checkoutInput
	in.Body.Plan, in.Body.Interval = plan.Startup, billing.Month
	return in
}

// Checkout creates a page on which the caller's organization subscribes to a plan or changes its plan. A larger plan
// begins when it is paid. A smaller plan begins at the end of the period, and only if the agents fit into it.
func Checkout(accounts billing.Store, agents agent.Store, payments billing.Payments) function.Route {
	return function.Route{
		Name: "CreateCheckoutSession", Method: http.MethodPost, Path: "/api/v1/billing/checkout-session",
		Role: function.RoleAccounts, KeepAnswer: true,
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Payments},
		Limit:  ratelimit.Payments,
		Status: http.StatusOK, Summary: "Buy or change a plan",
		Errors: []fault.Kind{fault.Conflict, fault.PaymentRequired},
		Handle: function.Handle(func(ctx context.Context, in checkoutInput) (SessionView, error) {
			// A repeated call asks the provider again, which answers the same key with the same page. The page is a
			// secret of the organization, so it is not kept here.
			call.From(ctx).Attempt.DiscardAnswer()
			if in.Body.Interval == "" {
				in.Body.Interval = billing.Month
			}
			a, err := accounts.Account(ctx, call.From(ctx).Caller.OrganizationID)
			if err != nil {
				return SessionView{}, err
			}
			order, err := a.NewOrder(in.Body.Plan, in.Body.Interval,
				func() ([]agent.Agent, error) { return agent.ListAll(ctx, agents) })
			if err != nil {
				return SessionView{}, err
			}
			s, err := payments.Checkout(ctx, order)
			known := s.CustomerID == a.Subscription.CustomerID && a.Subscription.Provider != billing.Manual
			if err == nil && s.CustomerID != "" && !known {
				err = billing.RememberCustomer(ctx, accounts, a.ID, s.CustomerID, time.Now())
			}
			return SessionView{s.URL, s.ExpiresAt}, err
		}),
	}
}
