// Package stripe takes payments through Stripe. It is the only package that calls Stripe.
//
// It finds the price of a plan, creates checkout and portal pages, verifies webhook events, and converts Stripe's
// subscriptions to ours. It does not decide what follows from a subscription (package billing in shared).
//
// The lookup key of a plan's price is the plan and the interval, as in "startup_month". A price can therefore be
// replaced without a change here. The plan of a subscription is the metadata "plan" of its price, which stays when the
// lookup key moves to a new price.
package stripe

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// Options configure the Stripe account and the web app's address.
type Options struct {
	// Key is a secret or restricted key of the API. Required.
	Key string
	// WebhookSecret is the signing secret of the webhook endpoint. Required.
	WebhookSecret string
	// ReturnURL is the page of the web app to which Stripe's pages return. Required.
	ReturnURL string
	// URL is the API's address. Empty means Stripe's.
	URL string
	// Timeout bounds every call, retries included. 0 means 8 s.
	Timeout time.Duration
}

const defaultTimeout = 8 * time.Second

// Payments implements billing.Payments.
type Payments struct {
	client        *client
	webhookSecret string
	returnURL     string
	timeout       time.Duration
}

var _ billing.Payments = (*Payments)(nil)

// Open creates the client. It makes no call.
func Open(o Options) (*Payments, error) {
	if o.Key == "" || o.WebhookSecret == "" || o.ReturnURL == "" {
		return nil, errors.New("stripe: configure the API key, the webhook's signing secret and the web app's address")
	}
	p := &Payments{webhookSecret: o.WebhookSecret, returnURL: o.ReturnURL, timeout: o.Timeout}
	if p.timeout <= 0 {
		p.timeout = defaultTimeout
	}
	p.client = &client{
		http: &http.Client{Timeout: p.timeout, Transport: http.DefaultTransport.(*http.Transport).Clone()},
		url:  strings.TrimSuffix(cmp.Or(o.URL, stripeURL), "/"), key: o.Key,
	}
	return p, nil
}

// Close closes idle connections.
func (p *Payments) Close() error {
	p.client.http.CloseIdleConnections()
	return nil
}

// Provider implements billing.Payments.
func (*Payments) Provider() billing.Provider { return billing.Stripe }

// faultOf maps the errors of calls to faults.
func faultOf(action string, err error) error {
	cause := fmt.Errorf("stripe: %s: %w", action, err)
	var e *apiError
	if !errors.As(err, &e) {
		return unavailable(cause)
	}
	switch {
	case e.status == http.StatusNotFound:
		return fault.New(fault.NotFound, "not_found",
			"The subscription does not exist at the payment provider.").WithCause(cause)
	case e.status == http.StatusTooManyRequests, e.status == http.StatusConflict,
		e.status >= http.StatusInternalServerError:
		return unavailable(cause)
	default:
		return cause
	}
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "payment_provider_unavailable",
		"The payment provider is temporarily unavailable. Retry in a few seconds.").
		WithCause(cause)
}
