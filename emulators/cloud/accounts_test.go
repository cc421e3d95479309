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

// clock is a clock that a test can advance.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// customer is an organization on the hobby plan and its admin.
type customer struct {
	t     *testing.T
	cloud deployment
	id    string
	token string
}

// customer creates an organization.
func (d deployment) customer(t *testing.T) customer {
	t.Helper()
	id := "org_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	token, err := d.Issuer.Session(issuer.Session{Subject: "user_of_" + id, Organization: id, Role: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	return customer{t, d, id, token}
}

// call calls as the organization's admin. It ends the test unless the response has the status and, unless "", the code.
func (c customer) call(method, path, body string, status int, code string) answer {
	c.t.Helper()
	a := c.cloud.call(c.t, c.token, method, path, body)
	if a.status != status || code != "" && a.body["code"] != code {
		c.t.Fatalf("%s %s: got %d %s, want %d %s", method, path, a.status, a.text, status, code)
	}
	return a
}

func (c customer) create(size string, status int, code string) answer {
	c.t.Helper()
	return c.call(http.MethodPost, "/api/v1/agents", `{"name": "`+size+`", "resource_plan": "`+size+`"}`, status, code)
}

// await reads an agent until it has a status and a reason.
func (c customer) await(id, status, reason string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		a := c.call(http.MethodGet, "/api/v1/agents/"+id, "", http.StatusOK, "")
		config, _ := a.body["config"].(map[string]any)
		got, _ := config["status_reason"].(string)
		if a.body["status"] == status && got == reason {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("timed out waiting for agent %s to be %s (reason %q): %s", id, status, reason, a.text)
		}
		<-tick.C
	}
}

// webhook sends an event. It ends the test unless the response has the status.
func (c customer) webhook(e stripeemu.Event, status int) answer {
	c.t.Helper()
	a := c.cloud.send(c.t, http.MethodPost, "/api/v1/billing/webhooks/stripe", string(e.Body),
		http.Header{"Stripe-Signature": {e.Signature}})
	if a.status != status {
		c.t.Fatalf("webhook: got %d %s, want %d", a.status, a.text, status)
	}
	return a
}

// changeSubscription changes a subscription in Stripe and sends the event.
func (c customer) changeSubscription(subscription string, changes ...stripeemu.Change) {
	c.t.Helper()
	if err := c.cloud.Stripe.Change(subscription, changes...); err != nil {
		c.t.Fatal(err)
	}
	c.webhook(c.cloud.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.updated", subscription, time.Now()),
		http.StatusOK)
}

// checkSubscription checks the organization's plan and status, and returns the subscription.
func (c customer) checkSubscription(plan, status string) answer {
	c.t.Helper()
	o := c.call(http.MethodGet, "/api/v1/organizations/current", "", http.StatusOK, "")
	s := c.call(http.MethodGet, "/api/v1/billing/subscription", "", http.StatusOK, "")
	checkEqual(c.t, "plan of the organization", o.body["plan"], plan)
	checkEqual(c.t, "status of the organization", o.body["status"], status)
	checkEqual(c.t, "plan of the subscription", s.body["plan"], plan)
	return s
}

// testSubscriptionLifecycle follows a customer who starts free, buys a plan, misses a payment, pays and cancels.
func testSubscriptionLifecycle(t *testing.T, d deployment) {
	c := d.customer(t)
	first, _ := c.create("hobby", http.StatusCreated, "").body["id"].(string)
	refused := c.create("hobby", http.StatusPaymentRequired, "plan_capacity_exceeded")
	meta, _ := refused.body["meta"].(map[string]any)
	checkEqual(t, "meta.upgrade_to of a refused creation", meta["upgrade_to"], "starter")
	checkEqual(t, "meta.limit of a refused creation", meta["limit"], "agents")
	page := c.call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "startup", "interval": "month"}`,
		http.StatusOK, "")
	address, _ := page.body["url"].(string)
	subscription, err := d.Stripe.Pay(address)
	if err != nil {
		t.Fatal(err)
	}
	c.checkSubscription("hobby", "active") // until the event arrives
	bought := d.Stripe.Sign("evt_"+uuid.NewString(), "checkout.session.completed", subscription, time.Now())
	c.webhook(bought, http.StatusOK)
	s := c.checkSubscription("startup", "active")
	checkEqual(t, "status of the subscription", s.body["status"], "active")
	checkEqual(t, "provider of the subscription", s.body["provider"], "stripe")
	checkEqual(t, "interval of the subscription", s.body["interval"], "month")
	second, _ := c.create("startup", http.StatusCreated, "").body["id"].(string)
	c.checkRepeatedEvents(bought, subscription)
	c.await(first, "running", "")
	c.await(second, "running", "")
	c.missPayment(subscription, first, second)
	c.cancelSubscription(subscription, first, second)
}

// checkRepeatedEvents sends an event twice, a late one, a forged one and an unknown one. None changes the subscription.
func (c customer) checkRepeatedEvents(bought stripeemu.Event, subscription string) {
	c.t.Helper()
	fetched := c.cloud.Stripe.Fetches(subscription)
	c.webhook(bought, http.StatusOK)
	checkEqual(c.t, "requests to Stripe for a repeated event", c.cloud.Stripe.Fetches(subscription)-fetched, 0)
	late := c.cloud.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.deleted", subscription,
		time.Now().Add(-4*time.Minute))
	c.webhook(late, http.StatusOK)
	c.checkSubscription("startup", "active")
	forged := bought
	forged.Signature = stripeemu.Signature("whsec_other", forged.Body, time.Now())
	a := c.webhook(forged, http.StatusBadRequest)
	checkEqual(c.t, "code of a forged event", a.body["code"], "invalid_signature")
	if strings.Contains(a.text, subscription) {
		c.t.Errorf("the response to a forged event names the subscription: %s", a.text)
	}
	c.webhook(c.cloud.Stripe.Sign("evt_"+uuid.NewString(), "hologram.created", "", time.Now()), http.StatusOK)
}

// missPayment misses a payment. Agents run through the grace period, then pause, and run again after the payment.
func (c customer) missPayment(subscription, first, second string) {
	c.t.Helper()
	c.changeSubscription(subscription, stripeemu.Status("past_due"))
	c.checkSubscription("startup", "past_due")
	c.create("hobby", http.StatusPaymentRequired, "subscription_past_due")
	if c.cloud.clock == nil {
		c.changeSubscription(subscription, stripeemu.Status("active"))
		return // the clock of another process cannot be advanced
	}
	c.cloud.clock.advance(7 * 24 * time.Hour)
	c.await(first, "paused", "billing")
	c.await(second, "paused", "billing")
	c.call(http.MethodPost, "/api/v1/agents/"+first+"/resume", "", http.StatusPaymentRequired, "subscription_past_due")
	c.call(http.MethodPost, "/api/v1/billing/portal-session", "", http.StatusOK, "")
	c.changeSubscription(subscription, stripeemu.Status("active"))
	c.await(first, "running", "")
	c.await(second, "running", "")
}

// cancelSubscription cancels. A smaller plan is refused while usage exceeds it; the end of the subscription pauses the
// agents above the free plan.
func (c customer) cancelSubscription(subscription, first, second string) {
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
	if _, ok := over["agents"]; !ok {
		c.t.Errorf("meta.over = %v, want an entry for agents", meta["over"])
	}
	checkEqual(c.t, "agent in meta.over for resource_plan", over["resource_plan"], second)
	c.changeSubscription(subscription, stripeemu.EndWithPeriod())
	s := c.checkSubscription("startup", "active")
	checkEqual(c.t, "pending_plan of a canceled subscription", s.body["pending_plan"], "hobby")
	checkEqual(c.t, "cancel_at_period_end", s.body["cancel_at_period_end"], true)
	c.changeSubscription(subscription, stripeemu.Status("canceled"))
	c.checkSubscription("hobby", "active")
	c.await(second, "paused", "billing")
	c.await(first, "running", "")
	c.call(http.MethodPost, "/api/v1/agents/"+second+"/resume", "", http.StatusPaymentRequired,
		"plan_capacity_exceeded")
	c.call(http.MethodDelete, "/api/v1/agents/"+second, "", http.StatusAccepted, "")
	c.call(http.MethodDelete, "/api/v1/agents/"+first, "", http.StatusAccepted, "")
}

// testPaymentsDuringCreations handles two events and two creations concurrently. A recount then confirms the usage.
func testPaymentsDuringCreations(t *testing.T, d deployment) {
	c := d.customer(t)
	page := c.call(http.MethodPost, "/api/v1/billing/checkout-session", `{"plan": "starter"}`, http.StatusOK, "")
	address, _ := page.body["url"].(string)
	subscription, err := d.Stripe.Pay(address)
	if err != nil {
		t.Fatal(err)
	}
	c.changeSubscription(subscription)
	if err := d.Stripe.Change(subscription, stripeemu.Price("pro_month")); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			e := d.Stripe.Sign("evt_"+uuid.NewString(), "customer.subscription.updated", subscription, time.Now())
			if a := d.send(t, http.MethodPost, "/api/v1/billing/webhooks/stripe", string(e.Body),
				http.Header{"Stripe-Signature": {e.Signature}}); a.status != http.StatusOK {
				t.Errorf("webhook: got %d %s, want 200", a.status, a.text)
			}
		})
		all.Go(func() {
			if a := d.call(t, c.token, http.MethodPost, "/api/v1/agents",
				`{"name": "a", "resource_plan": "starter"}`); a.status != http.StatusCreated {
				t.Errorf("creation: got %d %s, want 201", a.status, a.text)
			}
		})
	}
	all.Wait()
	c.checkSubscription("pro", "active")
	records, err := firestore.Open(t.Context(),
		firestore.Options{ProjectID: d.Ready.ProjectID, EmulatorHost: d.Ready.FirestoreEmulatorHost})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := records.Close(); err != nil {
			t.Error(err)
		}
	}()
	if drift, found, err := records.Counts().Recount(t.Context(), c.id); found || err != nil {
		t.Errorf("recount: drift %+v, error %v; want none", drift, err)
	}
	a, err := records.Accounts().Account(t.Context(), c.id)
	if err != nil {
		t.Fatal(err)
	}
	if a.Usage.Agents != 2 || a.Usage.CPUMillis != 2000 {
		t.Errorf("usage = %+v, want 2 agents and 2000 CPU millis", a.Usage)
	}
}
