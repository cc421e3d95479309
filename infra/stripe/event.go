package stripe

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stripe/stripe-go/v84/webhook"

	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

// maxSignatureAge bounds the age of an event's signature, so that a recorded event cannot be replayed later. A
// signature may lie as far in the future, because clocks differ.
const maxSignatureAge = 5 * time.Minute

// ids matches the ids of Stripe's objects. Firestore accepts every match as the id of a document.
var ids = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("^[A-Za-z0-9][A-Za-z0-9_-]{0,254}$")
})

// Event implements billing.Payments. It reads only the event's id, type and subscription, so the API version of the
// endpoint does not matter.
func (p *Payments) Event(body []byte, signature string) (billing.Event, error) {
	e, err := webhook.ConstructEventWithOptions(body, signature, p.webhookSecret, webhook.ConstructEventOptions{
		Tolerance: maxSignatureAge, IgnoreAPIVersionMismatch: true,
	})
	switch {
	case err != nil:
		return billing.Event{}, errInvalid(signatureError(err))
	case time.Until(signedAt(signature)) > maxSignatureAge:
		return billing.Event{}, errInvalid(errors.New("the signature is of the future"))
	case !ids().MatchString(e.ID):
		return billing.Event{}, errInvalid(errNoEvent)
	case e.Data == nil, !concernsSubscription(string(e.Type)):
		return billing.Event{ID: e.ID}, nil
	}
	subscription := subscriptionIn(e.Data.Raw)
	if subscription != "" && !ids().MatchString(subscription) {
		return billing.Event{}, errInvalid(errNoEvent)
	}
	return billing.Event{ID: e.ID, SubscriptionID: subscription}, nil
}

func errInvalid(cause error) error {
	return fault.New(fault.BadRequest, "invalid_signature",
		"The event's Stripe signature is missing, not valid, too old, or of the future.").WithCause(cause)
}

// signedAt returns the time of a signature that Stripe's library accepted. The library uses the last "t", too.
func signedAt(signature string) time.Time {
	var at int64
	for _, pair := range strings.Split(signature, ",") {
		if value, ok := strings.CutPrefix(pair, "t="); ok {
			at, _ = strconv.ParseInt(value, 10, 64) // the library parsed it
		}
	}
	return time.Unix(at, 0)
}

var errNoEvent = errors.New("the body is not an event")

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
	return errNoEvent
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
