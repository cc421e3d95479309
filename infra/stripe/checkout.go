package stripe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"agents.example/controlplane/shared/billing"
	apicall "agents.example/controlplane/shared/call"
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
// whether a new price applies immediately or from the next period. Stripe says whether a subscription still lives: the
// event of its end may have been lost.
func (p *Payments) Checkout(ctx context.Context, o billing.Order) (billing.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	isOurs := o.Present.Provider == billing.Stripe && o.Present.Live()
	var present *subscription
	var err error
	if isOurs {
		if present, err = p.retrieveLive(ctx, o.Present.ID); err != nil {
			return billing.Session{}, err
		}
	}
	switch {
	case present != nil && o.Plan == plan.Hobby:
		return p.createCancelSession(ctx, o, present)
	case isOurs && o.Plan == plan.Hobby:
		return billing.Session{}, fault.New(fault.Conflict, "plan_unchanged",
			"The subscription has already ended. The plan follows within a day.")
	case o.Plan == plan.Hobby:
		return billing.Session{}, fault.New(fault.Forbidden, "plan_feature_required",
			"The operator set the organization's plan without a subscription. Contact support to change it.")
	}
	price, err := p.findPrice(ctx, o.Plan, o.Interval)
	if err != nil {
		return billing.Session{}, err
	}
	if present != nil {
		return p.createPriceChangeSession(ctx, o, present, price)
	}
	return p.createCheckoutSession(ctx, o, price)
}

// retrieveLive returns Stripe's state of a subscription that was live when it was last seen; nil if it has ended since,
// or Stripe does not know it any more. The portal refuses pages about such a one.
func (p *Payments) retrieveLive(ctx context.Context, id string) (*subscription, error) {
	s, err := p.retrieve(ctx, id)
	switch {
	case fault.Is(err, fault.NotFound):
		return nil, nil //nolint:nilnil // documented
	case err != nil:
		return nil, err
	case !(billing.Subscription{Status: statusOf(s.Status)}).Live():
		return nil, nil //nolint:nilnil // documented
	}
	return s, nil
}

// findPrice returns the id of a plan's active price.
func (p *Payments) findPrice(ctx context.Context, to plan.ID, interval billing.Interval) (string, error) {
	key := fmt.Sprintf("%s_%s", to, interval)
	var found struct {
		Data []price `json:"data"`
	}
	_, err := p.client.do(ctx, call{
		method: http.MethodGet, path: "/v1/prices",
		form: url.Values{"active": {"true"}, "lookup_keys[0]": {key}},
	}, &found)
	if err != nil {
		return "", faultOf("look up a price", err)
	}
	if len(found.Data) > 0 {
		return found.Data[0].ID, nil
	}
	return "", fmt.Errorf("stripe: no active price has the lookup key %q; create one with the metadata plan=%s", key,
		to)
}

// createCheckoutSession creates a page that sells a subscription to the organization's customer, who may be new. All
// pages of an organization have one customer, so that its subscriptions and its other pages can be found by it.
func (p *Payments) createCheckoutSession(ctx context.Context, o billing.Order, price string) (billing.Session, error) {
	customer, err := p.customerOf(ctx, o)
	if err != nil {
		return billing.Session{}, err
	}
	form := url.Values{
		"mode": {"subscription"}, "client_reference_id": {o.OrganizationID},
		"line_items[0][price]": {price}, "line_items[0][quantity]": {"1"},
		"subscription_data[metadata][" + organizationKey + "]": {o.OrganizationID},
		"success_url": {p.returnURL}, "cancel_url": {p.returnURL}, "customer": {customer},
	}
	s, err := p.createSession(ctx, "create a checkout session", "/v1/checkout/sessions", form)
	return billing.Session{URL: s.URL, ExpiresAt: timeOf(s.ExpiresAt), CustomerID: customer}, err
}

// customerOf returns the organization's customer, or a new one if it has none. Who works in Stripe's dashboard can
// delete a customer, and Stripe refuses pages for it from then on.
func (p *Payments) customerOf(ctx context.Context, o billing.Order) (id string, err error) {
	key, former := "customer-"+o.OrganizationID, o.Present.CustomerID
	if former != "" {
		var found struct {
			Deleted bool `json:"deleted"`
		}
		_, err := p.client.do(ctx, call{
			method: http.MethodGet, path: "/v1/customers/" + url.PathEscape(former),
		}, &found)
		switch {
		case isMissing(err), err == nil && found.Deleted:
			key += "-after-" + former
		case err != nil:
			return "", faultOf("look up a customer", err)
		default:
			return former, nil
		}
	}
	return p.createCustomer(ctx, o.OrganizationID, key)
}

// createCustomer creates the customer of an organization, or returns the one that concurrent requests of the last day
// created under the same idempotency key.
func (p *Payments) createCustomer(ctx context.Context, organizationID, key string) (id string, err error) {
	var created struct {
		ID string `json:"id"`
	}
	_, err = p.client.create(ctx, call{
		method: http.MethodPost, path: "/v1/customers", idempotencyKey: key,
		form: url.Values{"metadata[" + organizationKey + "]": {organizationID}},
	}, &created)
	if err != nil {
		return "", faultOf("create a customer", err)
	}
	return created.ID, nil
}

// maxEnded bounds the calls of EndCheckouts. Other pages expire a day after they were created.
const maxEnded = 20

// EndCheckouts implements billing.Subscriptions.
func (p *Payments) EndCheckouts(ctx context.Context, customerID string) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var open struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	_, err := p.client.do(ctx, call{
		method: http.MethodGet, path: "/v1/checkout/sessions",
		form: url.Values{"customer": {customerID}, "status": {"open"}, "limit": {strconv.Itoa(maxEnded)}},
	}, &open)
	if isMissing(err) {
		return nil // with the customer, its pages are gone
	}
	if err != nil {
		return faultOf("list checkout sessions", err)
	}
	for _, s := range open.Data {
		_, err := p.client.do(ctx, call{
			method: http.MethodPost, path: "/v1/checkout/sessions/" + url.PathEscape(s.ID) + "/expire",
		}, &struct{}{})
		var refused *apiError
		if errors.As(err, &refused) && refused.status == http.StatusBadRequest {
			continue // it was paid or has expired since it was listed
		}
		if err != nil {
			return faultOf("expire a checkout session", err)
		}
	}
	return nil
}

// createCancelSession creates a portal page that cancels a subscription. Stripe refuses one for a subscription that is
// set to end.
func (p *Payments) createCancelSession(ctx context.Context, o billing.Order,
	present *subscription,
) (billing.Session, error) {
	if present.CancelAtPeriodEnd || present.CancelAt != 0 {
		return billing.Session{}, fault.New(fault.Conflict, "plan_unchanged",
			"The subscription is already set to end. To keep it, renew it in the billing portal.")
	}
	return p.createPortalSession(ctx, o.Present.CustomerID, url.Values{
		"flow_data[type]": {"subscription_cancel"},
		"flow_data[subscription_cancel][subscription]": {o.Present.ID},
	})
}

// createPriceChangeSession creates a portal page that moves a subscription to another price. Stripe refuses to move one
// to the price that it has: then the page is the portal's overview, which takes back what the end of the period brings.
func (p *Payments) createPriceChangeSession(ctx context.Context, o billing.Order, present *subscription,
	price string,
) (billing.Session, error) {
	item, err := onlyItemOf(present)
	if err != nil {
		return billing.Session{}, err
	}
	if item.Price.ID == price {
		return p.createPortalSession(ctx, o.Present.CustomerID, nil)
	}
	const confirm = "flow_data[subscription_update_confirm]"
	return p.createPortalSession(ctx, o.Present.CustomerID, url.Values{
		"flow_data[type]":                {"subscription_update_confirm"},
		confirm + "[subscription]":       {o.Present.ID},
		confirm + "[items][0][id]":       {item.ID},
		confirm + "[items][0][price]":    {price},
		confirm + "[items][0][quantity]": {"1"},
	})
}

// Portal implements billing.Payments.
func (p *Payments) Portal(ctx context.Context, customerID string) (billing.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	s, err := p.createPortalSession(ctx, customerID, nil)
	if isMissing(err) {
		err = fault.New(fault.Conflict, "no_subscription",
			"The organization's customer was deleted at the payment provider. Create a checkout session first.").
			WithCause(err)
	}
	return s, err
}

// createPortalSession creates a portal page. The flow is what the page is for; without one, it is the customer's
// overview.
func (p *Payments) createPortalSession(ctx context.Context, customerID string,
	flow url.Values,
) (billing.Session, error) {
	form := url.Values{"customer": {customerID}, "return_url": {p.returnURL}}
	maps.Copy(form, flow)
	s, err := p.createSession(ctx, "create a portal session", "/v1/billing_portal/sessions", form)
	if isUnset(err) {
		err = fmt.Errorf("%w; save the settings of the customer portal in Stripe's dashboard, so that customers can "+
			"switch between the prices of all plans and cancel subscriptions", err)
	}
	if err != nil {
		return billing.Session{}, err
	}
	return billing.Session{URL: s.URL, ExpiresAt: timeOf(s.Created).Add(portalSessionLifetime)}, nil
}

// session is what this package reads of Stripe's checkout and portal sessions.
type session struct {
	URL       string `json:"url"`
	Created   int64  `json:"created"`
	ExpiresAt int64  `json:"expires_at"`
}

// createSession creates a page under the idempotency key of the request. Stripe stores the answer. The key's id is
// unique across organizations.
func (p *Payments) createSession(ctx context.Context, action, path string, form url.Values) (session, error) {
	made := call{method: http.MethodPost, path: path, form: form}
	attempt := apicall.From(ctx).Attempt
	if attempt.Used() { // by an earlier call of this request
		attempt = nil
	}
	if attempt != nil {
		made.idempotencyKey = attempt.ID
	}
	var s session
	header, err := p.client.create(ctx, made, &s)
	if err != nil {
		return session{}, sessionFailure(attempt, action, err)
	}
	if replayed(header) {
		attempt.Replay()
	}
	attempt.Use()
	return s, nil
}

// sessionFailure maps the error of creating a session to a fault.
func sessionFailure(attempt *idempotency.Attempt, action string, err error) error {
	var e *apiError
	if attempt != nil && errors.As(err, &e) && e.Type == "idempotency_error" && e.status == http.StatusBadRequest {
		return idempotency.Reused()
	}
	return faultOf(action, err)
}

func timeOf(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0).UTC()
}
