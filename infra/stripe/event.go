package stripe

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// maxSignatureAge bounds the age of an event's signature, so that a recorded event cannot be replayed later.
const maxSignatureAge = 5 * time.Minute

// maxIDLength exceeds the length of every id of Stripe.
const maxIDLength = 255

// Event implements billing.Payments. It reads only the event's id, type and subscription, so the API version of the
// endpoint does not matter.
func (p *Payments) Event(body []byte, signature string) (billing.Event, error) {
	e, err := webhook.ConstructEventWithOptions(body, signature, p.webhookSecret, webhook.ConstructEventOptions{
		Tolerance: maxSignatureAge, IgnoreAPIVersionMismatch: true,
	})
	if err != nil || e.ID == "" || len(e.ID) > maxIDLength || strings.Contains(e.ID, "/") {
		return billing.Event{}, fault.New(fault.BadRequest, "invalid_signature",
			"The event's Stripe signature is missing, not valid, or too old.").WithCause(signatureError(err))
	}
	if e.Data == nil || !concernsSubscription(string(e.Type)) {
		return billing.Event{ID: e.ID}, nil
	}
	return billing.Event{ID: e.ID, SubscriptionID: subscriptionIn(e.Data.Raw)}, nil
}

// signatureError returns the reason to refuse a body, without quoting the body.
func signatureError(err error) error {
	for _, known := range []error{
		webhook.ErrInvalidHeader, webhook.ErrNoValidSignature, webhook.ErrNotSigned,
		webhook.ErrTooOld,
	} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("the body is not an event")
}

// concernsSubscription reports whether an event type announces changes to a subscription.
func concernsSubscription(eventType string) bool {
	for _, prefix := range []string{
		"customer.subscription.", "subscription_schedule.", "invoice.",
		"checkout.session.",
	} {
		if strings.HasPrefix(eventType, prefix) {
			return true
		}
	}
	return false
}

// subscriptionIn returns the id of the subscription that an event's object is or belongs to. It understands the old and
// the new form of invoices.
func subscriptionIn(raw json.RawMessage) string {
	var o struct {
		ID           string `json:"id"`
		Object       string `json:"object"`
		Subscription any    `json:"subscription"`
		Parent       struct {
			Details struct {
				Subscription any `json:"subscription"`
			} `json:"subscription_details"`
		} `json:"parent"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return ""
	}
	if o.Object == "subscription" {
		return o.ID
	}
	for _, reference := range []any{o.Subscription, o.Parent.Details.Subscription} {
		if id, ok := reference.(string); ok && id != "" {
			return id
		}
	}
	return ""
}
