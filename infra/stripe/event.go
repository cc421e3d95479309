package stripe

import (
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"sync"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// ids matches the ids of Stripe's objects. Firestore accepts every match as the id of a document.
var ids = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z0-9][A-Za-z0-9_-]{0,254}$")
})

// event is what this package reads of an event.
type event struct {
	ID     string `json:"id"`
	Object string `json:"object"`
	Type   string `json:"type"`
	Data   struct {
		Object json.RawMessage `json:"object"`
	} `json:"data"`
}

// Event implements billing.Payments. It reads only the event's id, type and subscription, so the API version of the
// endpoint does not matter.
func (p *Payments) Event(body []byte, signature string) (billing.Event, error) {
	if err := verifySignature(body, signature, p.webhookSecret); err != nil {
		return billing.Event{}, errInvalid(err)
	}
	var e event
	switch err := json.Unmarshal(body, &e); {
	case err != nil, e.Object != "event": // "v2.core.event" is of another API
		return billing.Event{}, errInvalid(errNoEvent)
	case !ids().MatchString(e.ID):
		return billing.Event{}, errInvalid(errNoEvent)
	case !concernsSubscription(e.Type):
		return billing.Event{ID: e.ID}, nil
	}
	subscription := subscriptionIn(e.Data.Object)
	if subscription != "" && !ids().MatchString(subscription) {
		return billing.Event{}, errInvalid(errNoEvent)
	}
	return billing.Event{ID: e.ID, SubscriptionID: subscription}, nil
}

func errInvalid(cause error) error {
	return fault.New(fault.BadRequest, "invalid_signature",
		"The event's Stripe signature is missing, not valid, too old, or of the future.").WithCause(cause)
}

// errNoEvent does not quote the body.
var errNoEvent = errors.New("the body is not an event")

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
// the new form of invoices. A schedule names the subscription that has left it, because the customer took back a
// change, as the released one.
func subscriptionIn(raw json.RawMessage) string {
	var o struct {
		ID           string `json:"id"`
		Object       string `json:"object"`
		Subscription any    `json:"subscription"`
		Released     any    `json:"released_subscription"`
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
	for _, reference := range []any{o.Subscription, o.Released, o.Parent.Details.Subscription} {
		if id, ok := reference.(string); ok && id != "" {
			return id
		}
	}
	return ""
}
