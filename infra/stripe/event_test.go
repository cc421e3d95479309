package stripe

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

func TestEvent_NamesTheSubscriptionItConcerns(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	event := func(eventType, object string) string {
		return `{"id": "evt_1", "object": "event", "api_version": "2019-02-19", "type": "` + eventType +
			`", "data": {"object": ` + object + `}}`
	}
	for name, c := range map[string]struct{ body, wantSubscription string }{
		"a subscription": {body: event("customer.subscription.updated",
			`{"id": "sub_1", "object": "subscription"}`), wantSubscription: "sub_1"},
		"a schedule": {
			body: event("subscription_schedule.updated",
				`{"id": "sub_sched_1", "object": "subscription_schedule", "subscription": "sub_2"}`),
			wantSubscription: "sub_2",
		},
		"a schedule that was taken back": {
			body: event("subscription_schedule.released", `{"id": "sub_sched_1", "object": "subscription_schedule",
				"subscription": null, "released_subscription": "sub_7"}`),
			wantSubscription: "sub_7",
		},
		"a checkout": {body: event("checkout.session.completed",
			`{"id": "cs_1", "object": "checkout.session", "subscription": "sub_3"}`), wantSubscription: "sub_3"},
		"an invoice in the old form": {body: event("invoice.paid",
			`{"id": "in_1", "object": "invoice", "subscription": "sub_4"}`), wantSubscription: "sub_4"},
		"an invoice in the new form": {
			body: event("invoice.payment_failed",
				`{"id": "in_1", "object": "invoice", "parent": {"subscription_details": {"subscription": "sub_5"}}}`),
			wantSubscription: "sub_5",
		},
		"an invoice without a subscription": {body: event("invoice.paid",
			`{"id": "in_1", "object": "invoice", "subscription": null, "parent": null}`)},
		"an unrelated event": {body: event("charge.succeeded",
			`{"id": "ch_1", "object": "charge", "subscription": "sub_6"}`)},
		"an unknown event type": {body: event("hologram.created", `{"subscription": {"nested": [1]}}`)},
	} {
		e, err := p.Event([]byte(c.body), stripeemu.Signature(stripeServer.WebhookSecret, []byte(c.body), time.Now()))
		if err != nil {
			t.Errorf("%s: Event returned %v", name, err)
		}
		if want := (billing.Event{ID: "evt_1", SubscriptionID: c.wantSubscription}); e != want {
			t.Errorf("%s: event = %+v, want %+v", name, e, want)
		}
	}
}

func TestEvent_RefusesForgedEventsWithoutQuotingThem(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	const canary = "canary-4711"
	body := `{"id": "evt_1", "object": "event", "type": "customer.subscription.updated", ` +
		`"data": {"object": {"id": "sub_1", "object": "subscription"}}, "note": "` + canary + `"}`
	now := time.Now()
	sign := func(body string, age time.Duration) string {
		return stripeemu.Signature(stripeServer.WebhookSecret, []byte(body), now.Add(-age))
	}
	good := sign(body, 0)
	if _, err := p.Event([]byte(body), good); err != nil {
		t.Fatalf("the valid event is refused: %v", err)
	}
	for name, c := range map[string]struct{ body, signature string }{
		"no signature":              {body: body, signature: ""},
		"not a signature header":    {body: body, signature: "garbage"},
		"another secret":            {body: body, signature: stripeemu.Signature("whsec_other", []byte(body), now)},
		"an empty secret":           {body: body, signature: stripeemu.Signature("", []byte(body), now)},
		"another body":              {body: body + " ", signature: good},
		"another timestamp":         {body: body, signature: strings.Replace(good, "t=", "t=1", 1)},
		"only an old scheme":        {body: body, signature: strings.Replace(good, "v1=", "v0=", 1)},
		"an old signature":          {body: body, signature: sign(body, maxSignatureAge+2*time.Second)},
		"a signature of the future": {body: body, signature: sign(body, -maxSignatureAge-time.Minute)},
		"a signature of the future after a current time": {
			body: body, signature: fmt.Sprintf("t=%d,", now.Unix()) + sign(body, -maxSignatureAge-time.Minute),
		},
		"signed, but not JSON":     {body: canary, signature: sign(canary, 0)},
		"signed, but not an event": {body: `{"note": "` + canary + `"}`, signature: sign(`{"note": "`+canary+`"}`, 0)},
		"signed, but an event of API v2": {
			body:      `{"id": "evt_1", "object": "v2.core.event"}`,
			signature: sign(`{"id": "evt_1", "object": "v2.core.event"}`, 0),
		},
		"a very long header": {body: body, signature: strings.Repeat("v1=a,", 100_000)},
	} {
		_, err := p.Event([]byte(c.body), c.signature)
		e := fault.From(err)
		if e == nil {
			t.Errorf("%s: the event was accepted", name)
			continue
		}
		if e.Kind != fault.BadRequest || e.Code != "invalid_signature" {
			t.Errorf("%s: error = %v, want a BadRequest with code invalid_signature", name, err)
		}
		if strings.Contains(e.Error(), canary) {
			t.Errorf("%s: the error quotes the body: %v", name, e)
		}
	}
}

func TestEvent_AcceptsTheClockOfAnotherHost(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	body := []byte(`{"id": "evt_1", "object": "event"}`)
	for name, offset := range map[string]time.Duration{
		"behind": -maxSignatureAge + time.Minute,
		"ahead":  maxSignatureAge - time.Minute,
	} {
		signature := stripeemu.Signature(stripeServer.WebhookSecret, body, time.Now().Add(offset))
		if _, err := p.Event(body, signature); err != nil {
			t.Errorf("%s: Event returned %v, want no error", name, err)
		}
	}
}

// TestEvent_RefusesOddIDs checks ids that Stripe never uses and that the store or Stripe's API could not take.
func TestEvent_RefusesOddIDs(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	odd := []string{
		"", "a/b", "__x__", "__", "_evt", ".", "..", "-1", "evt 1", "evt\u00001", "evt\n", "é", "../customers",
		strings.Repeat("x", 256),
	}
	for _, id := range odd {
		bodies := map[string]string{
			"event": `{"id": "` + id + `", "object": "event"}`,
		}
		if id != "" { // an event without a subscription is valid
			bodies["subscription"] = `{"id": "evt_1", "object": "event", "type": "customer.subscription.updated", ` +
				`"data": {"object": {"id": "` + id + `", "object": "subscription"}}}`
		}
		for object, body := range bodies {
			_, err := p.Event([]byte(body),
				stripeemu.Signature(stripeServer.WebhookSecret, []byte(body), time.Now()))
			if !fault.Is(err, fault.BadRequest) {
				t.Errorf("%s with the id %.20q: Event returned %v, want a BadRequest", object, id, err)
			}
		}
	}
}
