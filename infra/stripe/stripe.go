// Package stripe takes payments through Stripe. It is the only package that speaks to it.
//
// It knows how a plan is a price of Stripe's, how pages for customers are made, how an event is told from a forged one,
// and how Stripe's subscription is one of ours. It does not know what follows from any of it (package billing in
// shared).
//
// A plan is sold by the price whose lookup key is the plan and the interval, as in "startup_month", so that a price can
// be replaced without a change here. What a subscription is for says its price's metadata "plan", which stays when the
// lookup key has moved on.
package stripe

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	api "github.com/stripe/stripe-go/v84"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// Options say whose account is charged, and where users come from.
type Options struct {
	// Key is a secret or restricted key of the API. Required.
	Key string
	// WebhookSecret is the signing secret of the endpoint that events are sent to. Required.
	WebhookSecret string
	// ReturnURL is the page of the web app that users come back to. Required.
	ReturnURL string
	// URL is the API's address; empty is Stripe's own.
	URL string
	// Timeout bounds every call, repetitions included; 0 is 8 s.
	Timeout time.Duration
}

const (
	defaultTimeout = 8 * time.Second
	// repeats is how often the library repeats a call. It sends the same idempotency key with each.
	repeats = 2
)

// Payments implements billing.Payments.
type Payments struct {
	client  *api.Client
	http    *http.Client
	secret  string
	back    string
	timeout time.Duration
}

var _ billing.Payments = (*Payments)(nil)

// Open makes the client. It makes no call.
func Open(o Options) (*Payments, error) {
	if o.Key == "" || o.WebhookSecret == "" || o.ReturnURL == "" {
		return nil, errors.New("stripe: the API key, the webhook's signing secret and the web app's address must all be configured")
	}
	p := &Payments{secret: o.WebhookSecret, back: o.ReturnURL, timeout: o.Timeout}
	if p.timeout <= 0 {
		p.timeout = defaultTimeout
	}
	p.http = &http.Client{Timeout: p.timeout, Transport: http.DefaultTransport.(*http.Transport).Clone()}
	config := &api.BackendConfig{
		HTTPClient: p.http, MaxNetworkRetries: api.Int64(repeats), EnableTelemetry: api.Bool(false),
		// The library's own log would show parts of requests and answers.
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull},
	}
	if o.URL != "" {
		config.URL = api.String(o.URL)
	}
	p.client = api.NewClient(o.Key, api.WithBackends(api.NewBackendsWithConfig(config)))
	return p, nil
}

// Close ends idle connections.
func (p *Payments) Close() error {
	p.http.CloseIdleConnections()
	return nil
}

// Provider implements billing.Payments.
func (*Payments) Provider() billing.Provider { return billing.Stripe }

// failure is the one mapping of Stripe's errors to the vocabulary of faults. Stripe's messages are left out: they
// repeat what was sent.
func failure(doing string, err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return unavailable(fmt.Errorf("stripe: %s: %w", doing, err))
	}
	cause := fmt.Errorf("stripe: %s: status %d, type %s, code %s, parameter %s, request %s", doing, e.HTTPStatusCode,
		e.Type, e.Code, e.Param, e.RequestID)
	switch {
	case e.HTTPStatusCode == http.StatusNotFound:
		return fault.New(fault.NotFound, "not_found",
			"The payment provider does not know the subscription.").WithCause(cause)
	case e.HTTPStatusCode == http.StatusTooManyRequests, e.HTTPStatusCode == http.StatusConflict,
		e.HTTPStatusCode >= http.StatusInternalServerError:
		return unavailable(cause)
	default:
		return cause
	}
}

func unavailable(cause error) error {
	return fault.New(fault.Unavailable, "payment_provider_unavailable",
		"The payment provider can't be reached at the moment. Try again in a few seconds.").
		WithCause(cause)
}
