package cloud_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/infra/firestore"
)

// clock is a clock of accounts that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) pass(d time.Duration) { c.ahead.Add(int64(d)) }

// customer is an organization that begins on hobby, as its admin sees it.
type customer struct {
	t     *testing.T
	w     world
	id    string
	token string
}

func (w world) customer(t *testing.T) customer {
	t.Helper()
	id := "org_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	token, err := w.Issuer.Session(issuer.Session{Subject: "user_of_" + id, Organization: id, Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	return customer{t, w, id, token}
}

// call calls as the organization's admin and wants a status and, unless it is "", a code.
func (c customer) call(method, path, body string, status int, code string) answer {
	c.t.Helper()
	a := c.w.call(c.t, c.token, method, path, body)
	if a.status != status || code != "" && a.body["code"] != code {
		c.t.Fatalf("%s %s: %d %s, want %d %s", method, path, a.status, a.text, status, code)
	}
	return a
}

func (c customer) create(size string, status int, code string) answer {
	c.t.Helper()
	return c.call(http.MethodPost, "/api/v1/agents", `{"name": "`+size+`", "resource_plan": "`+size+`"}`, status, code)
}

// await polls an agent until it has a status for a reason.
func (c customer) await(id, status, reason string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		a := c.call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK, "")
		config, _ := a.body["config"].(map[string]any)
		said, _ := config["status_reason"].(string)
		if a.body["status"] == status && said == reason {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("agent %s is not %s (%s): %s", id, status, reason, a.text)
		}
		<-tick.C
	}
}

// webhook sends an event and wants a status.
func (c customer) webhook(e stripeemu.Event, status int) answer {
	c.t.Helper()
	a := c.w.send(c.t, http.MethodPost, "/api/v1/billing/webhooks/stripe", string(e.Body),
		http.Header{"Stripe-Signature": {e.Signature}})
	if a.status != status {
		c.t.Fatalf("webhook: %d %s, want %d", a.status, a.text, status)
	}
	return a
}

// learns changes a subscription and has the control plane be told.
func (c customer) learns(subscription string, changes ...stripeemu.Change) {
	c.t.Helper()
	if err := c.w.Stripe.Change(subscription, changes...); err != nil {
		c.t.Fatal(err)
	}
	c.webhook(c.w.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.updated", subscription, time.Now()),
		http.StatusOK)
}

// subscribed wants the organization's plan and status.
func (c customer) subscribed(plan, status string) answer {
	c.t.Helper()
	o := c.call(http.MethodGet, "/api/v1/organizations/current", "", http.StatusOK, "")
	s := c.call(http.MethodGet, "/api/v1/billing/subscription", "", http.StatusOK, "")
	if o.body["plan"] != plan || o.body["status"] != status || s.body["plan"] != plan {
		c.t.Fatalf("organization %s, subscription %s; want plan %s, status %s", o.text, s.text, plan, status)
	}
	return s
}

// pays is the life of a customer: it begins for nothing, buys, fails to pay, pays, and leaves.
func pays(t *testing.T, w world) {
	c := w.customer(t)
	first, _ := c.create("hobby", http.StatusCreated, "").body["id"].(string)
	refused := c.create("hobby", http.StatusPaymentRequired, "plan_capacity_exceeded")
	if meta, _ := refused.body["meta"].(map[string]any); meta["upgrade_to"] != "starter" || meta["limit"] != "agents" {
		t.Errorf("the refusal says %v", refused.body["meta"])
	}
	page := c.call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "startup", "interval": "month"}`,
		http.StatusOK, "")
	address, _ := page.body["url"].(string)
	subscription, err := w.Stripe.Pay(address)
	if err != nil {
		t.Fatal(err)
	}
	c.subscribed("hobby", "active") // until we are told
	bought := w.Stripe.Sign("evt_"+uuid.NewString(), "checkout.session.completed", subscription, time.Now())
	c.webhook(bought, http.StatusOK)
	if s := c.subscribed("startup", "active"); s.body["status"] != "active" || s.body["provider"] != "stripe" ||
		s.body["interval"] != "month" {
		t.Errorf("the subscription is %s", s.text)
	}
	second, _ := c.create("startup", http.StatusCreated, "").body["id"].(string)
	c.again(bought, subscription)
	c.await(first, "running", "")
	c.await(second, "running", "")
	c.failsToPay(subscription, first, second)
	c.leaves(subscription, first, second)
}

// again: an event that comes twice, an old one that comes late and a forged one change nothing.
func (c customer) again(bought stripeemu.Event, subscription string) {
	c.t.Helper()
	fetched := c.w.Stripe.Fetches()
	c.webhook(bought, http.StatusOK)
	if n := c.w.Stripe.Fetches() - fetched; n != 0 {
		c.t.Errorf("an event that comes twice is looked into %d times more", n)
	}
	late := c.w.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.deleted", subscription,
		time.Now().Add(-4*time.Minute))
	c.webhook(late, http.StatusOK)
	c.subscribed("startup", "active")
	forged := bought
	forged.Signature = stripeemu.Signature("whsec_other", forged.Body, time.Now())
	if a := c.webhook(forged, http.StatusBadRequest); a.body["code"] != "invalid_signature" ||
		strings.Contains(a.text, subscription) {
		c.t.Errorf("a forged event: %s", a.text)
	}
	c.webhook(c.w.Stripe.Sign("evt_"+uuid.NewString(), "hologram.created", "", time.Now()), http.StatusOK)
}

// failsToPay: agents run through the grace, then rest, and come back when the payment is made.
func (c customer) failsToPay(subscription, first, second string) {
	c.t.Helper()
	c.learns(subscription, stripeemu.Status("past_due"))
	c.subscribed("startup", "past_due")
	c.create("hobby", http.StatusPaymentRequired, "subscription_past_due")
	if c.w.clock == nil {
		c.learns(subscription, stripeemu.Status("active"))
		return // no clock is moved in another process
	}
	c.w.clock.pass(7 * 24 * time.Hour)
	c.await(first, "paused", "billing")
	c.await(second, "paused", "billing")
	c.call(http.MethodPost, "/api/v1/agents/"+first+"/resume", "", http.StatusPaymentRequired, "subscription_past_due")
	c.call(http.MethodPost, "/api/v1/billing/portal-session", "", http.StatusOK, "")
	c.learns(subscription, stripeemu.Status("active"))
	c.await(first, "running", "")
	c.await(second, "running", "")
}

// leaves: a smaller plan is refused while too much is there; an end is not, and pauses what is over.
func (c customer) leaves(subscription, first, second string) {
	c.t.Helper()
	refused := c.call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "hobby"}`, http.StatusConflict,
		"usage_over_plan")
	meta, _ := refused.body["meta"].(map[string]any)
	over := map[string]string{}
	for _, e := range meta["over"].([]any) {
		entry, _ := e.(map[string]any)
		limit, _ := entry["limit"].(string)
		over[limit], _ = entry["agent_id"].(string)
	}
	if _, ok := over["agents"]; !ok || over["resource_plan"] != second {
		c.t.Errorf("what is over: %v", meta["over"])
	}
	c.learns(subscription, stripeemu.EndWithPeriod())
	if s := c.subscribed("startup", "active"); s.body["pending_plan"] != "hobby" ||
		s.body["cancel_at_period_end"] != true {
		c.t.Errorf("the subscription that ends is %s", s.text)
	}
	c.learns(subscription, stripeemu.Status("canceled"))
	c.subscribed("hobby", "active")
	c.await(second, "paused", "billing")
	c.await(first, "running", "")
	c.call(http.MethodPost, "/api/v1/agents/"+second+"/resume", "", http.StatusPaymentRequired,
		"plan_capacity_exceeded")
	c.call(http.MethodDelete, "/api/v1/agents/"+second, "", http.StatusAccepted, "")
	c.call(http.MethodDelete, "/api/v1/agents/"+first, "", http.StatusAccepted, "")
}

// counts: two events and two creations at once leave counters that a recount agrees with.
func counts(t *testing.T, w world) {
	c := w.customer(t)
	page := c.call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "starter"}`, http.StatusOK, "")
	address, _ := page.body["url"].(string)
	subscription, err := w.Stripe.Pay(address)
	if err != nil {
		t.Fatal(err)
	}
	c.learns(subscription)
	if err := w.Stripe.Change(subscription, stripeemu.Price("pro_month")); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			e := w.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.updated", subscription, time.Now())
			if a := w.send(t, http.MethodPost, "/api/v1/billing/webhooks/stripe", string(e.Body),
				http.Header{"Stripe-Signature": {e.Signature}}); a.status != http.StatusOK {
				t.Errorf("webhook: %d %s", a.status, a.text)
			}
		})
		all.Go(func() {
			if a := w.call(t, c.token, http.MethodPost, "/api/v1/agents",
				`{"name": "a", "resource_plan": "starter"}`); a.status != http.StatusCreated {
				t.Errorf("create: %d %s", a.status, a.text)
			}
		})
	}
	all.Wait()
	c.subscribed("pro", "active")
	records, err := firestore.Open(t.Context(),
		firestore.Options{ProjectID: w.Ready.ProjectID, EmulatorHost: w.Ready.FirestoreEmulatorHost})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := records.Close(); err != nil {
			t.Error(err)
		}
	}()
	if drift, found, err := records.Counts().Recount(t.Context(), c.id); found || err != nil {
		t.Errorf("the recount found %+v, %v", drift, err)
	}
	a, err := records.Accounts().Account(t.Context(), c.id)
	if err != nil || a.Usage.Agents != 2 || a.Usage.CPUMillis != 2000 {
		t.Errorf("the usage is %+v, %v", a.Usage, err)
	}
}
