package subscriptions

import (
	"context"
	"net/http"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// Portal creates a page on which the caller's organization sees its invoices and changes its payment method.
func Portal(accounts billing.Store, payments billing.Payments) function.Route {
	return function.Route{
		Name: "CreatePortalSession", Method: http.MethodPost, Path: "/api/v1/billing/portal-session",
		Role: function.RoleAccounts, KeepAnswer: true,
		Access: function.Admin, Needs: []function.Need{function.Firestore, function.Payments},
		Limit:  ratelimit.Payments,
		Status: http.StatusOK, Summary: "Open the billing portal", Errors: []fault.Kind{fault.Conflict},
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (SessionView, error) {
			// A repeated call asks the provider again, which answers the same key with the same page. The page is a
			// secret of the organization, so it is not kept here.
			call.From(ctx).Attempt.DiscardAnswer()
			a, err := accounts.Account(ctx, call.From(ctx).Caller.OrganizationID)
			if err != nil {
				return SessionView{}, err
			}
			customer := a.Subscription.CustomerID
			if customer == "" && payments.Provider() != billing.Manual {
				return SessionView{}, fault.New(fault.Conflict, "no_subscription",
					"The organization has never had a subscription. Create a checkout session first.")
			}
			s, err := payments.Portal(ctx, customer)
			return SessionView{s.URL, s.ExpiresAt}, err
		}),
	}
}
