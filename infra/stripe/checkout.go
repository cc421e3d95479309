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

// organizationKey is the metadata key of a subscription's organization.
const organizationKey = "organization_id"

// portalSessionLifetime is how long a portal page can be opened. Stripe documents it but does not return it.
const portalSessionLifetime = 5 * time.Minute

// Checkout implements billing.Payments. An organization without a live subscription buys one on a checkout page. An
// organization with one confirms the change or the cancellation on a portal page. The portal's configuration decides
// whether a new price applies immediately or from the next period.
func (p *Payments) Checkout(ctx context.Context, o billing.Order) (billing.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	isOurs := o.Present.Provider == billing.Stripe && o.Present.Live()
	if o.Plan == plan.Hobby {
		if !isOurs {
			return billing.Session{}, fault.New(fault.Forbidden, "plan_feature_required",
				"The operator set the organization's plan without a subscription. Contact support to change it.")
		}
		return p.createPortalSession(ctx, o.Present.CustomerID, &api.BillingPortalSessionCreateFlowDataParams{
			Type: api.String("subscription_cancel"),
			SubscriptionCancel: &api.BillingPortalSessionCreateFlowDataSubscriptionCancelParams{
				Subscription: api.String(o.Present.ID),
			},
		})
	}
	price, err := p.findPrice(ctx, o.Plan, o.Interval)
	if err != nil {
		return billing.Session{}, err
	}
	if isOurs {
		return p.createPriceChangeSession(ctx, o, price)
	}
	return p.createCheckoutSession(ctx, o, price)
}

// findPrice returns the id of a plan's active price.
func (p *Payments) findPrice(ctx context.Context, to plan.ID, interval billing.Interval) (string, error) {
	key := fmt.Sprintf("%s_%s", to, interval)
	params := &api.PriceListParams{Active: api.Bool(true), LookupKeys: []*string{api.String(key)}}
	params.Single = true
	for found, err := range p.client.V1Prices.List(ctx, params) {
		if err != nil {
			return "", faultOf("look up a price", err)
		}
		return found.ID, nil
	}
	return "", fmt.Errorf("stripe: no active price has the lookup key %q; create one with the metadata plan=%s", key,
		to)
}

// createCheckoutSession creates a page that sells a subscription.
func (p *Payments) createCheckoutSession(ctx context.Context, o billing.Order, price string) (billing.Session, error) {
	metadata := map[string]string{organizationKey: o.OrganizationID}
	params := &api.CheckoutSessionCreateParams{
		Mode: api.String(string(api.CheckoutSessionModeSubscription)), ClientReferenceID: api.String(o.OrganizationID),
		LineItems: []*api.CheckoutSessionCreateLineItemParams{{
			Price:    api.String(price),
			Quantity: api.Int64(1),
		}},
		SubscriptionData: &api.CheckoutSessionCreateSubscriptionDataParams{Metadata: metadata},
		SuccessURL:       api.String(p.returnURL), CancelURL: api.String(p.returnURL),
	}
	if o.Present.CustomerID != "" {
		params.Customer = api.String(o.Present.CustomerID)
	}
	attempt := setIdempotencyKey(ctx, &params.Params)
	s, err := p.client.V1CheckoutSessions.Create(ctx, params)
	if err != nil {
		return billing.Session{}, sessionFailure(attempt, "create a checkout session", err)
	}
	noteAnswer(attempt, s.LastResponse)
	return billing.Session{URL: s.URL, ExpiresAt: timeOf(s.ExpiresAt)}, nil
}

// createPriceChangeSession creates a portal page that moves a subscription to another price.
func (p *Payments) createPriceChangeSession(ctx context.Context, o billing.Order,
	price string,
) (billing.Session, error) {
	present, err := p.client.V1Subscriptions.Retrieve(ctx, o.Present.ID, nil)
	if err != nil {
		return billing.Session{}, faultOf("fetch a subscription", err)
	}
	item, err := onlyItemOf(present)
	if err != nil {
		return billing.Session{}, err
	}
	return p.createPortalSession(ctx, o.Present.CustomerID, &api.BillingPortalSessionCreateFlowDataParams{
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
	return p.createPortalSession(ctx, customerID, nil)
}

func (p *Payments) createPortalSession(ctx context.Context, customerID string,
	flow *api.BillingPortalSessionCreateFlowDataParams,
) (billing.Session, error) {
	params := &api.BillingPortalSessionCreateParams{
		Customer: api.String(customerID), ReturnURL: api.String(p.returnURL), FlowData: flow,
	}
	attempt := setIdempotencyKey(ctx, &params.Params)
	s, err := p.client.V1BillingPortalSessions.Create(ctx, params)
	if err != nil {
		return billing.Session{}, sessionFailure(attempt, "create a portal session", err)
	}
	noteAnswer(attempt, s.LastResponse)
	return billing.Session{URL: s.URL, ExpiresAt: timeOf(s.Created).Add(portalSessionLifetime)}, nil
}

// setIdempotencyKey sends the call's idempotency key to Stripe, which stores the answer. The key's id is unique across
// organizations. It returns nil if the call has no key or has already used it.
func setIdempotencyKey(ctx context.Context, params *api.Params) *idempotency.Attempt {
	attempt := idempotency.From(ctx)
	if attempt == nil || attempt.Used() {
		return nil
	}
	params.IdempotencyKey = api.String(attempt.ID)
	return attempt
}

// sessionFailure maps the error of creating a session to a fault.
func sessionFailure(attempt *idempotency.Attempt, action string, err error) error {
	var e *api.Error
	if attempt != nil && errors.As(err, &e) && e.Type == api.ErrorTypeIdempotency &&
		e.HTTPStatusCode == http.StatusBadRequest {
		return idempotency.Reused()
	}
	return faultOf(action, err)
}

// noteAnswer records that the attempt used its key, and whether Stripe replayed the answer of an earlier call.
func noteAnswer(attempt *idempotency.Attempt, r *api.APIResponse) {
	if attempt == nil {
		return
	}
	attempt.Use()
	if r != nil && r.Header.Get("Idempotent-Replayed") == "true" {
		attempt.Replay()
	}
}

func timeOf(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
}
