package stripe

import (
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
)

func TestEvents(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	object := func(kind, object string) string {
		return `{"id": "evt_1", "object": "event", "api_version": "2019-02-19", "type": "` + kind +
			`", "data": {"object": ` + object + `}}`
	}
	for name, c := range map[string]struct{ body, about string }{
		"a subscription": {body: object("customer.subscription.updated",
			`{"id": "sub_1", "object": "subscription"}`), about: "sub_1"},
		"a schedule": {body: object("subscription_schedule.updated",
			`{"id": "sub_sched_1", "object": "subscription_schedule", "subscription": "sub_2"}`), about: "sub_2"},
		"a checkout": {body: object("checkout.session.completed",
			`{"id": "cs_1", "object": "checkout.session", "subscription": "sub_3"}`), about: "sub_3"},
		"an old invoice": {body: object("invoice.paid",
			`{"id": "in_1", "object": "invoice", "subscription": "sub_4"}`), about: "sub_4"},
		"an invoice": {body: object("invoice.payment_failed",
			`{"id": "in_1", "object": "invoice", "parent": {"subscription_details": {"subscription": "sub_5"}}}`),
			about: "sub_5"},
		"an invoice of a sale": {body: object("invoice.paid",
			`{"id": "in_1", "object": "invoice", "subscription": null, "parent": null}`), about: ""},
		"something else": {body: object("charge.succeeded",
			`{"id": "ch_1", "object": "charge", "subscription": "sub_6"}`), about: ""},
		"of the future": {body: object("hologram.created", `{"subscription": {"nested": [1]}}`), about: ""},
	} {
		e, err := p.Event([]byte(c.body), stripeemu.Signature(provider.WebhookSecret, []byte(c.body), time.Now()))
		if want := (billing.Event{ID: "evt_1", SubscriptionID: c.about}); err != nil || e != want {
			t.Errorf("%s: %+v, %v; want %+v", name, e, err, want)
		}
	}
}

// TestForgeries: nothing but what Stripe signed in the last minutes is taken, and no error tells anything of the body.
func TestForgeries(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	const canary = "canary-4711"
	body := `{"id": "evt_1", "object": "event", "type": "customer.subscription.updated", "data": {"object": {"id": "sub_1", "object": "subscription"}}, "note": "` + canary + `"}`
	now, secret := time.Now(), provider.WebhookSecret
	good := stripeemu.Signature(secret, []byte(body), now)
	if _, err := p.Event([]byte(body), good); err != nil {
		t.Fatalf("the control is refused: %v", err)
	}
	for name, c := range map[string]struct{ body, signature string }{
		"no signature":       {body: body, signature: ""},
		"no header":          {body: body, signature: "garbage"},
		"another secret":     {body: body, signature: stripeemu.Signature("whsec_other", []byte(body), now)},
		"an empty secret":    {body: body, signature: stripeemu.Signature("", []byte(body), now)},
		"another body":       {body: body + " ", signature: good},
		"another time":       {body: body, signature: strings.Replace(good, "t=", "t=1", 1)},
		"only an old scheme": {body: body, signature: strings.Replace(good, "v1=", "v0=", 1)},
		"too old": {body: body,
			signature: stripeemu.Signature(secret, []byte(body), now.Add(-tolerance-2*time.Second))},
		"signed, but no JSON": {body: canary, signature: stripeemu.Signature(secret, []byte(canary), now)},
		"signed, but no event": {body: `{"note": "` + canary + `"}`,
			signature: stripeemu.Signature(secret, []byte(`{"note": "`+canary+`"}`), now)},
		"signed, but a bad id": {body: `{"id": "a/b", "object": "event"}`,
			signature: stripeemu.Signature(secret, []byte(`{"id": "a/b", "object": "event"}`), now)},
		"signed, but of v2": {body: `{"id": "evt_1", "object": "v2.core.event"}`,
			signature: stripeemu.Signature(secret, []byte(`{"id": "evt_1", "object": "v2.core.event"}`), now)},
		"a header without an end": {body: body, signature: strings.Repeat("v1=a,", 100_000)},
	} {
		_, err := p.Event([]byte(c.body), c.signature)
		if e := fault.From(err); e == nil || e.Kind != fault.BadRequest || e.Code != "invalid_signature" ||
			strings.Contains(e.Error(), canary) {
			t.Errorf("%s: %v, want a bad request that tells nothing", name, err)
		}
	}
}
