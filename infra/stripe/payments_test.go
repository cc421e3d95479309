package stripe

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// bought is an organization's subscription that was just bought.
func bought(t *testing.T, p *Payments, to plan.ID, interval billing.Interval) billing.Subscription {
	t.Helper()
	s, err := p.Checkout(t.Context(), billing.Order{OrganizationID: "org_1", Plan: to, Interval: interval})
	if err != nil {
		t.Fatal(err)
	}
	if wait := time.Until(s.ExpiresAt); wait < 23*time.Hour || wait > 25*time.Hour {
		t.Errorf("a page to buy on expires in %s", wait)
	}
	id, err := provider.Pay(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	return fetched(t, p, id)
}

func fetched(t *testing.T, p *Payments, id string) billing.Subscription {
	t.Helper()
	state, err := p.Fetch(t.Context(), id)
	if err != nil || state.OrganizationID != "org_1" {
		t.Fatalf("fetched %+v, %v", state, err)
	}
	return state.Subscription
}

func TestSubscribe(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	s := bought(t, p, plan.Startup, billing.Year)
	if s.Provider != billing.Stripe || s.Status != billing.Active || s.Plan != plan.Startup ||
		s.Interval != billing.Year || s.PendingPlan != "" ||
		s.CustomerID == "" || s.CancelAtPeriodEnd || !s.PeriodEnd.After(s.PeriodStart) ||
		time.Since(s.StartedAt).Abs() > time.Minute {
		t.Errorf("bought %+v", s)
	}
	again, err := p.Checkout(t.Context(), billing.Order{
		OrganizationID: "org_1", Plan: plan.Pro, Interval: billing.Month,
		Present: billing.Subscription{Provider: billing.Stripe, Status: billing.Canceled, CustomerID: s.CustomerID},
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := provider.Pay(again.URL)
	if err != nil || fetched(t, p, id).CustomerID != s.CustomerID {
		t.Errorf("who comes back is another customer: %v", err)
	}
}

// TestMove: who has a subscription moves it, and has never two.
func TestMove(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	s := bought(t, p, plan.Starter, billing.Month)
	for _, c := range []struct {
		to       plan.ID
		interval billing.Interval
		plan     plan.ID
		ends     bool
	}{{to: plan.Pro, interval: billing.Year, plan: plan.Pro, ends: false},
		{to: plan.Hobby, interval: billing.Month, plan: plan.Pro, ends: true},
		{to: plan.Pro, interval: billing.Month, plan: plan.Pro, ends: false}} {
		page, err := p.Checkout(t.Context(),
			billing.Order{OrganizationID: "org_1", Present: s, Plan: c.to, Interval: c.interval})
		if err != nil {
			t.Fatal(err)
		}
		if wait := time.Until(page.ExpiresAt); wait < 4*time.Minute || wait > 6*time.Minute {
			t.Errorf("a page of the portal expires in %s", wait)
		}
		id, err := provider.Pay(page.URL)
		if err != nil || id != s.ID {
			t.Fatalf("to %s: subscription %s, %v; want %s", c.to, id, err, s.ID)
		}
		got := fetched(t, p, id)
		if got.Plan != c.plan || got.CancelAtPeriodEnd != c.ends || (got.PendingPlan == plan.Hobby) != c.ends {
			t.Errorf("to %s: %+v", c.to, got)
		}
	}
	if page, err := p.Portal(t.Context(), s.CustomerID); err != nil || !strings.HasPrefix(page.URL, provider.URL) {
		t.Errorf("the portal: %+v, %v", page, err)
	}
}

// TestStates: each state of Stripe's is one of ours.
func TestStates(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	for name, c := range map[string]struct {
		change  []stripeemu.Change
		status  billing.Status
		pending plan.ID
	}{
		"trialing": {change: []stripeemu.Change{stripeemu.Status("trialing")}, status: billing.Trialing,
			pending: ""},
		"past due": {change: []stripeemu.Change{stripeemu.Status("past_due")}, status: billing.PastDue,
			pending: ""},
		"unpaid": {change: []stripeemu.Change{stripeemu.Status("unpaid")}, status: billing.PastDue,
			pending: ""},
		"paused": {change: []stripeemu.Change{stripeemu.Status("paused")}, status: billing.PastDue,
			pending: ""},
		"canceled": {change: []stripeemu.Change{stripeemu.EndWithPeriod(), stripeemu.Status("canceled")},
			status: billing.Canceled, pending: ""},
		"incomplete": {change: []stripeemu.Change{stripeemu.Status("incomplete")}, status: billing.None,
			pending: ""},
		"never completed": {change: []stripeemu.Change{stripeemu.Status("incomplete_expired")}, status: billing.None,
			pending: ""},
		"a later downgrade": {change: []stripeemu.Change{stripeemu.Schedule("starter_month")}, status: billing.Active,
			pending: plan.Starter},
		"a later interval": {change: []stripeemu.Change{stripeemu.Schedule("pro_year")}, status: billing.Active,
			pending: ""},
		"ending": {change: []stripeemu.Change{stripeemu.EndWithPeriod()}, status: billing.Active,
			pending: plan.Hobby},
		"of no plan, ended": {change: []stripeemu.Change{stripeemu.Price("mug_month"), stripeemu.Status("canceled")},
			status: billing.Canceled, pending: ""},
		"upgraded elsewhere": {change: []stripeemu.Change{stripeemu.Price("business_month")}, status: billing.Active,
			pending: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := bought(t, p, plan.Pro, billing.Month)
			if err := provider.Change(s.ID, c.change...); err != nil {
				t.Fatal(err)
			}
			if got := fetched(t, p, s.ID); got.Status != c.status || got.PendingPlan != c.pending {
				t.Errorf("status %s, pending plan %q; want %s, %q", got.Status, got.PendingPlan, c.status, c.pending)
			}
		})
	}
}

func TestNotOurs(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	s := bought(t, p, plan.Pro, billing.Month)
	if _, err := p.Fetch(t.Context(), "sub_unknown"); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown subscription: %v, want not found", err)
	}
	if err := provider.Change(s.ID, stripeemu.Price("mug_month")); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Fetch(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), "metadata plan") {
		t.Errorf("a price of no plan: %v, want what to do", err)
	}
	if err := provider.Change(s.ID, stripeemu.Foreign()); err != nil {
		t.Fatal(err)
	}
	if state, err := p.Fetch(t.Context(), s.ID); err != nil || state != (billing.State{}) {
		t.Errorf("another product's subscription: %+v, %v", state, err)
	}
	if _, err := p.Checkout(t.Context(),
		billing.Order{OrganizationID: "o", Plan: plan.Enterprise, Interval: billing.Month}); err == nil ||
		!strings.Contains(err.Error(), "enterprise_month") {
		t.Errorf("a plan without a price: %v, want its lookup key", err)
	}
}

// TestIdempotency: a repeated call makes no second page, and a key is refused to another call.
func TestIdempotency(t *testing.T) {
	t.Parallel()
	p := open(t, nil)
	call := func(key string, to plan.ID) (billing.Session, *idempotency.Attempt, error) {
		a := idempotency.New("org_1", key, idempotency.Request{})
		s, err := p.Checkout(idempotency.With(t.Context(), a),
			billing.Order{OrganizationID: "org_1", Plan: to, Interval: billing.Month})
		return s, a, err
	}
	first, attempt, err := call("key-1", plan.Pro)
	if err != nil || attempt.Replayed() || !attempt.Used() {
		t.Fatalf("the first call: %v, replayed %t", err, attempt.Replayed())
	}
	again, attempt, err := call("key-1", plan.Pro)
	if err != nil || again != first || !attempt.Replayed() {
		t.Errorf("the repeated call: %+v, %v, replayed %t; want %+v", again, err, attempt.Replayed(), first)
	}
	if _, _, err := call("key-1", plan.Starter); fault.Code(err) != "idempotency_key_reused" {
		t.Errorf("another call with the key: %v", err)
	}
	if other, _, err := call("key-2", plan.Pro); err != nil || other.URL == first.URL {
		t.Errorf("another key: %+v, %v", other, err)
	}
}

// TestTrouble: what may pass is unavailable, what is a defect of the configuration is not; and no error shows a key.
func TestTrouble(t *testing.T) {
	t.Parallel()
	status := make(chan int, 1)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		code := <-status
		status <- code
		w.Header().Set("Stripe-Should-Retry", "false")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"error": {"type": "api_error", "message": "canary sk_test_canary"}}`))
	}))
	t.Cleanup(broken.Close)
	p := open(t, func(o *Options) { o.URL, o.Key = broken.URL, "sk_test_canary" })
	for code, kind := range map[int]fault.Kind{500: fault.Unavailable, 503: fault.Unavailable, 429: fault.Unavailable,
		401: fault.Internal, 400: fault.Internal} {
		status <- code
		_, err := p.Fetch(t.Context(), "sub_1")
		if e := fault.From(err); e.Kind != kind || strings.Contains(e.Error(), "canary") {
			t.Errorf("status %d: %v, want kind %d and nothing of the answer", code, e, kind)
		}
		<-status
	}
	gone := open(t, func(o *Options) { o.URL, o.Timeout = "http://127.0.0.1:1", 2*time.Second })
	if _, err := gone.Portal(t.Context(), "cus_1"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("nobody answers: %v, want unavailable", err)
	}
	for _, o := range []Options{{Key: "k", WebhookSecret: "w"}, {Key: "k", ReturnURL: "r"},
		{WebhookSecret: "w", ReturnURL: "r"}} {
		if _, err := Open(o); err == nil {
			t.Errorf("opened with %+v", o)
		}
	}
}
