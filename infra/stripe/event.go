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

// tolerance is how old an event's signature may be, so that one that was overheard is soon worth nothing.
const tolerance = 5 * time.Minute

// maxID is longer than any id of Stripe's.
const maxID = 255

// Event implements billing.Payments. Only the event's id, its type and what it is about are looked at, so that the
// version of the interface that the endpoint was made with does not matter.
func (p *Payments) Event(body []byte, signature string) (billing.Event, error) {
	e, err := webhook.ConstructEventWithOptions(body, signature, p.secret, webhook.ConstructEventOptions{
		Tolerance: tolerance, IgnoreAPIVersionMismatch: true,
	})
	if err != nil || e.ID == "" || len(e.ID) > maxID || strings.Contains(e.ID, "/") {
		return billing.Event{}, fault.New(fault.BadRequest, "invalid_signature",
			"This is not an event that Stripe signed for this endpoint within the last minutes.").WithCause(reason(err))
	}
	if e.Data == nil || !about(string(e.Type)) {
		return billing.Event{ID: e.ID}, nil
	}
	return billing.Event{ID: e.ID, SubscriptionID: subscriptionIn(e.Data.Raw)}, nil
}

// reason is why a body is refused, without anything of the body.
func reason(err error) error {
	for _, known := range []error{webhook.ErrInvalidHeader, webhook.ErrNoValidSignature, webhook.ErrNotSigned,
		webhook.ErrTooOld} {
		if errors.Is(err, known) {
			return known
		}
	}
	return errors.New("the body is not an event")
}

// about reports whether events of a type tell of a change to a subscription.
func about(kind string) bool {
	for _, prefix := range []string{"customer.subscription.", "subscription_schedule.", "invoice.",
		"checkout.session."} {
		if strings.HasPrefix(kind, prefix) {
			return true
		}
	}
	return false
}

// subscriptionIn finds the subscription that an event's object is, or belongs to, in the old and new form of invoices.
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
