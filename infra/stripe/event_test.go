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
		return `{"id": "evt_1", "object": "event", "api_version": "2019-02-19", "type": "` + kind + `", "data": {"object": ` + object + `}}`
	}
	for name, c := range map[string]struct{ body, about string }{
		"a subscription":       {object("customer.subscription.updated", `{"id": "sub_1", "object": "subscription"}`), "sub_1"},
		"a schedule":           {object("subscription_schedule.updated", `{"id": "sub_sched_1", "object": "subscription_schedule", "subscription": "sub_2"}`), "sub_2"},
		"a checkout":           {object("checkout.session.completed", `{"id": "cs_1", "object": "checkout.session", "subscription": "sub_3"}`), "sub_3"},
		"an old invoice":       {object("invoice.paid", `{"id": "in_1", "object": "invoice", "subscription": "sub_4"}`), "sub_4"},
		"an invoice":           {object("invoice.payment_failed", `{"id": "in_1", "object": "invoice", "parent": {"subscription_details": {"subscription": "sub_5"}}}`), "sub_5"},
		"an invoice of a sale": {object("invoice.paid", `{"id": "in_1", "object": "invoice", "subscription": null, "parent": null}`), ""},
		"something else":       {object("charge.succeeded", `{"id": "ch_1", "object": "charge", "subscription": "sub_6"}`), ""},
		"of the future":        {object("hologram.created", `{"subscription": {"nested": [1]}}`), ""},
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
		"no signature":            {body, ""},
		"no header":               {body, "garbage"},
		"another secret":          {body, stripeemu.Signature("whsec_other", []byte(body), now)},
		"an empty secret":         {body, stripeemu.Signature("", []byte(body), now)},
		"another body":            {body + " ", good},
		"another time":            {body, strings.Replace(good, "t=", "t=1", 1)},
		"only an old scheme":      {body, strings.Replace(good, "v1=", "v0=", 1)},
		"too old":                 {body, stripeemu.Signature(secret, []byte(body), now.Add(-tolerance-2*time.Second))},
		"signed, but no JSON":     {canary, stripeemu.Signature(secret, []byte(canary), now)},
		"signed, but no event":    {`{"note": "` + canary + `"}`, stripeemu.Signature(secret, []byte(`{"note": "`+canary+`"}`), now)},
		"signed, but a bad id":    {`{"id": "a/b", "object": "event"}`, stripeemu.Signature(secret, []byte(`{"id": "a/b", "object": "event"}`), now)},
		"signed, but of v2":       {`{"id": "evt_1", "object": "v2.core.event"}`, stripeemu.Signature(secret, []byte(`{"id": "evt_1", "object": "v2.core.event"}`), now)},
		"a header without an end": {body, strings.Repeat("v1=a,", 100_000)},
	} {
		_, err := p.Event([]byte(c.body), c.signature)
		if e := fault.From(err); e == nil || e.Kind != fault.BadRequest || e.Code != "invalid_signature" || strings.Contains(e.Error(), canary) {
			t.Errorf("%s: %v, want a bad request that tells nothing", name, err)
		}
	}
}
