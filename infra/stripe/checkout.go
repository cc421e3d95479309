package stripe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// organizationKey is the metadata of a subscription that says whose it is.
const organizationKey = "organization_id"

// portalLife is how long a page of the portal can be opened. Stripe doesn't tell, but documents it.
const portalLife = 5 * time.Minute

// Checkout implements billing.Payments. Who has no live subscription buys one; who has one confirms on a page of the
// portal what becomes of it: another price, at once or from the end of the period on, as the portal is configured, or
// its end.
func (p *Payments) Checkout(ctx context.Context, o billing.Order) (billing.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	mine := o.Present.Provider == billing.Stripe && o.Present.Live()
	if o.Plan == plan.Hobby {
		if !mine {
			return billing.Session{}, fault.New(fault.Forbidden, "plan_feature_required",
				"The operator of the service has set the plan. Ask the operator to change it.")
		}
		return p.portal(ctx, o.Present.CustomerID, &api.BillingPortalSessionCreateFlowDataParams{
			Type:               api.String("subscription_cancel"),
			SubscriptionCancel: &api.BillingPortalSessionCreateFlowDataSubscriptionCancelParams{Subscription: api.String(o.Present.ID)},
		})
	}
	price, err := p.price(ctx, o.Plan, o.Interval)
	if err != nil {
		return billing.Session{}, err
	}
	if mine {
		return p.move(ctx, o, price)
	}
	return p.subscribe(ctx, o, price)
}

// price finds what a plan is sold for.
func (p *Payments) price(ctx context.Context, to plan.ID, interval billing.Interval) (string, error) {
	key := fmt.Sprintf("%s_%s", to, interval)
	params := &api.PriceListParams{Active: api.Bool(true), LookupKeys: []*string{api.String(key)}}
	params.Single = true
	for found, err := range p.client.V1Prices.List(ctx, params) {
		if err != nil {
			return "", failure("look up a price", err)
		}
		return found.ID, nil
	}
	return "", fmt.Errorf("stripe: no active price has the lookup key %q: create one with the metadata plan=%s", key,
		to)
}

// subscribe makes a page on which a subscription is bought.
func (p *Payments) subscribe(ctx context.Context, o billing.Order, price string) (billing.Session, error) {
	whose := map[string]string{organizationKey: o.OrganizationID}
	params := &api.CheckoutSessionCreateParams{
		Mode: api.String(string(api.CheckoutSessionModeSubscription)), ClientReferenceID: api.String(o.OrganizationID),
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{Price: api.String(price),
			Quantity: api.Int64(1)}},
		SubscriptionData: &api.CheckoutSessionCreateSubscriptionDataParams{Metadata: whose},
		SuccessURL:       api.String(p.back), CancelURL: api.String(p.back),
	}
	if o.Present.CustomerID != "" {
		params.Customer = api.String(o.Present.CustomerID)
	}
	attempt := keyed(ctx, &params.Params)
	s, err := p.client.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return billing.Session{}, refused(attempt, "create a checkout session", err)
	}
	answered(attempt, s.LastResponse)
	return billing.Session{URL: s.URL, ExpiresAt: at(s.ExpiresAt)}, nil
}

// move makes a page on which a subscription is moved to another price.
func (p *Payments) move(ctx context.Context, o billing.Order, price string) (billing.Session, error) {
	present, err := p.client.V1Subscriptions.Retrieve(ctx, o.Present.ID, nil)
	if err != nil {
		return billing.Session{}, failure("fetch a subscription", err)
	}
	item, err := itemOf(present)
	if err != nil {
		return billing.Session{}, err
	}
	return p.portal(ctx, o.Present.CustomerID, &api.BillingPortalSessionCreateFlowDataParams{
		Type: api.String("subscription_update_confirm"),
		SubscriptionUpdateConfirm: &api.BillingPortalSessionCreateFlowDataSubscriptionUpdateConfirmParams{
			Subscription: api.String(o.Present.ID),
			Items: []*api.BillingPortalSessionCreateFlowDataSubscriptionUpdateConfirmItemParams{{
				ID: api.String(item.ID), Price: api.String(price), Quantity: api.Int64(1),
			}},
		},
	})
}

// Portal implements billing.Payments.
func (p *Payments) Portal(ctx context.Context, customerID string) (billing.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.portal(ctx, customerID, nil)
}

func (p *Payments) portal(ctx context.Context, customerID string,
	flow *api.BillingPortalSessionCreateFlowDataParams) (billing.Session, error) {
	params := &api.BillingPortalSessionCreateParams{
		Customer: api.String(customerID), ReturnURL: api.String(p.back), FlowData: flow,
	}
	attempt := keyed(ctx, &params.Params)
	s, err := p.client.V1BillingPortalSessions.Create(ctx, params)
	if err != nil {
		return billing.Session{}, refused(attempt, "create a portal session", err)
	}
	answered(attempt, s.LastResponse)
	return billing.Session{URL: s.URL, ExpiresAt: at(s.Created).Add(portalLife)}, nil
}

// keyed hands the call's idempotency key on, under the name that it has among those of all organizations: Stripe keeps
// the answer.
func keyed(ctx context.Context, params *api.Params) *idempotency.Attempt {
	attempt := idempotency.From(ctx)
	if attempt == nil || attempt.Used() {
		return nil
	}
	params.IdempotencyKey = api.String(attempt.ID)
	return attempt
}

// refused is the error of a page that could not be made.
func refused(attempt *idempotency.Attempt, doing string, err error) error {
	var e *api.Error
	if attempt != nil && errors.As(err, &e) && e.Type == api.ErrorTypeIdempotency &&
		e.HTTPStatusCode == http.StatusBadRequest {
		return idempotency.Reused()
	}
	return failure(doing, err)
}

// answered notes whether Stripe gave the answer of a former call.
func answered(attempt *idempotency.Attempt, r *api.APIResponse) {
	if attempt == nil {
		return
	}
	attempt.Use()
	if r != nil && r.Header.Get("Idempotent-Replayed") == "true" {
		attempt.Replay()
	}
}

func at(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
}
