package stripe

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"agents.example/controlplane/emulators/stripeemu"
	"agents.example/controlplane/shared/billing"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
	"agents.example/controlplane/shared/plan"
)

// openCheckout opens a page on which an organization buys a plan.
func openCheckout(t *testing.T, p *Payments, o billing.Order) billing.Session {
	t.Helper()
	s, err := p.Checkout(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pay pays on a page and returns the id of the subscription.
func pay(t *testing.T, page billing.Session) string {
	t.Helper()
	id, err := stripeServer.Pay(page.URL)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// changeSubscription changes a subscription in Stripe.
func changeSubscription(t *testing.T, id string, changes ...stripeemu.Change) {
	t.Helper()
	if err := stripeServer.Change(id, changes...); err != nil {
		t.Fatal(err)
	}
}

// buySubscription buys a subscription for org_1 and returns it.
func buySubscription(t *testing.T, p *Payments, to plan.ID, interval billing.Interval) billing.Subscription {
	t.Helper()
	s := openCheckout(t, p, billing.Order{OrganizationID: "org_1", Plan: to, Interval: interval})
	if wait := time.Until(s.ExpiresAt); wait < 23*time.Hour || wait > 25*time.Hour {
		t.Errorf("the checkout page expires in %s, want about 24 h", wait)
	}
	return fetchSubscription(t, p, pay(t, s))
}

func fetchSubscription(t *testing.T, p *Payments, id string) billing.Subscription {
	t.Helper()
	state, err := p.Fetch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if state.OrganizationID != "org_1" {
		t.Fatalf("OrganizationID = %q, want org_1", state.OrganizationID)
	}
	return state.Subscription
}

func TestCheckout_SellsASubscriptionAndKeepsTheCustomer(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	s := buySubscription(t, p, plan.Startup, billing.Year)
	want := billing.Subscription{
		Provider: billing.Stripe, Status: billing.Active, Plan: plan.Startup, Interval: billing.Year,
		ID: s.ID, CustomerID: s.CustomerID, StartedAt: s.StartedAt, PeriodStart: s.PeriodStart, PeriodEnd: s.PeriodEnd,
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Errorf("bought subscription (-want +got):\n%s", diff)
	}
	if s.CustomerID == "" {
		t.Error("CustomerID is empty")
	}
	if !s.PeriodEnd.After(s.PeriodStart) {
		t.Errorf("the period is %s to %s, want an end after its start", s.PeriodStart, s.PeriodEnd)
	}
	if age := time.Since(s.StartedAt).Abs(); age > time.Minute {
		t.Errorf("StartedAt = %s, %s from now; want less than a minute", s.StartedAt, age)
	}
	again := openCheckout(t, p, billing.Order{
		OrganizationID: "org_1", Plan: plan.Pro, Interval: billing.Month,
		Present: billing.Subscription{Provider: billing.Stripe, Status: billing.Canceled, CustomerID: s.CustomerID},
	})
	if got := fetchSubscription(t, p, pay(t, again)).CustomerID; got != s.CustomerID {
		t.Errorf("CustomerID of the second subscription = %s, want %s", got, s.CustomerID)
	}
}

func TestCheckout_ChangesThePresentSubscription(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	s := buySubscription(t, p, plan.Starter, billing.Month)
	for _, c := range []struct {
		to       plan.ID
		interval billing.Interval
		wantPlan plan.ID
		wantEnds bool
	}{
		{to: plan.Pro, interval: billing.Year, wantPlan: plan.Pro, wantEnds: false},
		{to: plan.Hobby, interval: billing.Month, wantPlan: plan.Pro, wantEnds: true},
		{to: plan.Pro, interval: billing.Month, wantPlan: plan.Pro, wantEnds: false},
	} {
		page := openCheckout(t, p,
			billing.Order{OrganizationID: "org_1", Present: s, Plan: c.to, Interval: c.interval})
		if wait := time.Until(page.ExpiresAt); wait < 4*time.Minute || wait > 6*time.Minute {
			t.Errorf("the portal page expires in %s, want about 5 min", wait)
		}
		id, err := stripeServer.Pay(page.URL)
		if err != nil || id != s.ID {
			t.Fatalf("to %s: paid for subscription %s, %v; want %s", c.to, id, err, s.ID)
		}
		got := fetchSubscription(t, p, id)
		if got.Plan != c.wantPlan {
			t.Errorf("to %s: Plan = %s, want %s", c.to, got.Plan, c.wantPlan)
		}
		if got.CancelAtPeriodEnd != c.wantEnds {
			t.Errorf("to %s: CancelAtPeriodEnd = %t, want %t", c.to, got.CancelAtPeriodEnd, c.wantEnds)
		}
		if (got.PendingPlan == plan.Hobby) != c.wantEnds {
			t.Errorf("to %s: PendingPlan = %q, want hobby: %t", c.to, got.PendingPlan, c.wantEnds)
		}
	}
	if page, err := p.Portal(t.Context(), s.CustomerID); err != nil || !strings.HasPrefix(page.URL, stripeServer.URL) {
		t.Errorf("Portal = %+v, %v; want a page of %s", page, err, stripeServer.URL)
	}
}

// TestCheckout_AsksNoConfirmationOfWhatIsSo: Stripe refuses pages on which a customer would confirm what already is so.
func TestCheckout_AsksNoConfirmationOfWhatIsSo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change   stripeemu.Change
		to       plan.ID
		wantCode string // empty if the portal shows the subscription
	}{
		"keep a plan that ends":     {change: stripeemu.EndWithPeriod(), to: plan.Pro},
		"keep a plan that changes":  {change: stripeemu.Schedule("starter_month"), to: plan.Pro},
		"end a plan that ends":      {change: stripeemu.EndWithPeriod(), to: plan.Hobby, wantCode: "plan_unchanged"},
		"buy what was bought there": {change: stripeemu.Price("business_month"), to: plan.Business},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openPayments(t, nil)
			s := buySubscription(t, p, plan.Pro, billing.Month)
			changeSubscription(t, s.ID, row.change)
			page, err := p.Checkout(t.Context(),
				billing.Order{OrganizationID: "org_1", Present: s, Plan: row.to, Interval: billing.Month})
			if row.wantCode != "" {
				if !fault.Is(err, fault.Conflict) || fault.Code(err) != row.wantCode {
					t.Errorf("Checkout = %+v, %v; want a conflict with code %s", page, err, row.wantCode)
				}
				return
			}
			if err != nil || !strings.HasPrefix(page.URL, stripeServer.URL) {
				t.Fatalf("Checkout = %+v, %v; want a page of %s", page, err, stripeServer.URL)
			}
			before := fetchSubscription(t, p, s.ID)
			if _, err := stripeServer.Pay(page.URL); err == nil || fetchSubscription(t, p, s.ID) != before {
				t.Error("the page changes the subscription; want the portal's overview")
			}
		})
	}
}

// TestCheckout_KnowsThatTheSubscriptionHasEnded: the event of its end was lost, so the order has it as live. The portal
// has no page for it.
func TestCheckout_KnowsThatTheSubscriptionHasEnded(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	ended := buySubscription(t, p, plan.Pro, billing.Month)
	changeSubscription(t, ended.ID, stripeemu.Status("canceled"))
	unknown := ended
	unknown.ID = "sub_of_another_account"
	for name, present := range map[string]billing.Subscription{"ended": ended, "unknown": unknown} {
		order := billing.Order{OrganizationID: "org_1", Present: present, Plan: plan.Business, Interval: billing.Month}
		page, err := p.Checkout(t.Context(), order)
		if err != nil {
			t.Fatalf("%s: %v, want a page that sells a subscription", name, err)
		}
		bought, err := stripeServer.Pay(page.URL)
		if err != nil || bought == ended.ID || page.CustomerID != ended.CustomerID {
			t.Errorf("%s: the page sells %s to %s, %v; want another subscription of %s", name, bought, page.CustomerID,
				err, ended.CustomerID)
		}
		order.Plan = plan.Hobby
		if page, err := p.Checkout(t.Context(), order); fault.Code(err) != "plan_unchanged" {
			t.Errorf("%s: the end of it = %+v, %v; want plan_unchanged", name, page, err)
		}
	}
}

func TestFetch_MapsEachStateOfStripe(t *testing.T) {
	t.Parallel()
	changes := func(all ...stripeemu.Change) []stripeemu.Change { return all }
	p := openPayments(t, nil)
	for name, c := range map[string]struct {
		change      []stripeemu.Change
		wantStatus  billing.Status
		wantPending plan.ID
	}{
		"trialing":        {change: changes(stripeemu.Status("trialing")), wantStatus: billing.Trialing},
		"past due":        {change: changes(stripeemu.Status("past_due")), wantStatus: billing.PastDue},
		"unpaid":          {change: changes(stripeemu.Status("unpaid")), wantStatus: billing.PastDue},
		"paused":          {change: changes(stripeemu.Status("paused")), wantStatus: billing.PastDue},
		"incomplete":      {change: changes(stripeemu.Status("incomplete")), wantStatus: billing.None},
		"never completed": {change: changes(stripeemu.Status("incomplete_expired")), wantStatus: billing.None},
		"canceled": {
			change: changes(stripeemu.EndWithPeriod(), stripeemu.Status("canceled")), wantStatus: billing.Canceled,
		},
		"a scheduled downgrade": {
			change: changes(stripeemu.Schedule("starter_month")), wantStatus: billing.Active, wantPending: plan.Starter,
		},
		"a scheduled interval": {change: changes(stripeemu.Schedule("pro_year")), wantStatus: billing.Active},
		"ending": {
			change: changes(stripeemu.EndWithPeriod()), wantStatus: billing.Active, wantPending: plan.Hobby,
		},
		"canceled, with a price of no plan": {
			change: changes(stripeemu.Price("mug_month"), stripeemu.Status("canceled")), wantStatus: billing.Canceled,
		},
		"upgraded outside of checkout": {
			change: changes(stripeemu.Price("business_month")), wantStatus: billing.Active,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := buySubscription(t, p, plan.Pro, billing.Month)
			changeSubscription(t, s.ID, c.change...)
			got := fetchSubscription(t, p, s.ID)
			if got.Status != c.wantStatus {
				t.Errorf("Status = %s, want %s", got.Status, c.wantStatus)
			}
			if got.PendingPlan != c.wantPending {
				t.Errorf("PendingPlan = %q, want %q", got.PendingPlan, c.wantPending)
			}
		})
	}
}

func TestFetch_ForeignAndUnsellableSubscriptions(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	s := buySubscription(t, p, plan.Pro, billing.Month)
	if _, err := p.Fetch(t.Context(), "sub_unknown"); !fault.Is(err, fault.NotFound) {
		t.Errorf("Fetch of an unknown subscription returned %v, want kind NotFound", err)
	}
	changeSubscription(t, s.ID, stripeemu.Price("mug_month"))
	if _, err := p.Fetch(t.Context(), s.ID); err == nil || !strings.Contains(err.Error(), "metadata plan") {
		t.Errorf("Fetch with a price of no plan returned %v, want a hint to add the metadata plan", err)
	}
	changeSubscription(t, s.ID, stripeemu.OfAnotherProduct())
	if state, err := p.Fetch(t.Context(), s.ID); err != nil || state != (billing.State{}) {
		t.Errorf("Fetch of another product's subscription = %+v, %v; want an empty state", state, err)
	}
	if _, err := p.Checkout(t.Context(),
		billing.Order{OrganizationID: "o", Plan: plan.Enterprise, Interval: billing.Month}); err == nil ||
		!strings.Contains(err.Error(), "enterprise_month") {
		t.Errorf("Checkout of a plan without a price returned %v, want its lookup key", err)
	}
}

// A repeated call creates no second page, and another call cannot use the same key.
func TestCheckout_IsIdempotentPerKey(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	run := uuid.NewString() + "-" // the server remembers the keys of earlier runs
	checkout := func(key string, to plan.ID) (billing.Session, *idempotency.Attempt, error) {
		a := idempotency.New("org_1", run+key, idempotency.Request{})
		s, err := p.Checkout(apicall.With(t.Context(), &apicall.Call{Attempt: a}),
			billing.Order{OrganizationID: "org_1", Plan: to, Interval: billing.Month})
		return s, a, err
	}
	first, attempt, err := checkout("key-1", plan.Pro)
	if err != nil {
		t.Fatal(err)
	}
	if attempt.Replayed() {
		t.Error("the first call was replayed, want a new page")
	}
	if !attempt.Used() {
		t.Error("the first call did not use its key")
	}
	again, attempt, err := checkout("key-1", plan.Pro)
	if err != nil || again != first {
		t.Errorf("the repeated call = %+v, %v; want %+v", again, err, first)
	}
	if !attempt.Replayed() {
		t.Error("the repeated call was not replayed")
	}
	if _, _, err := checkout("key-1", plan.Starter); fault.Code(err) != "idempotency_key_reused" {
		t.Errorf("another call with the same key returned %v, want code idempotency_key_reused", err)
	}
	if other, _, err := checkout("key-2", plan.Pro); err != nil || other.URL == first.URL {
		t.Errorf("a call with another key = %+v, %v; want a new page", other, err)
	}
}

func TestFetch_SeparatesTransientErrorsFromDefectsAndHidesSecrets(t *testing.T) {
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
	p := openPayments(t, func(o *Options) { o.URL, o.Key = broken.URL, "sk_test_canary" })
	for code, kind := range map[int]fault.Kind{
		500: fault.Unavailable, 503: fault.Unavailable, 429: fault.Unavailable,
		401: fault.Internal, 400: fault.Internal,
	} {
		status <- code
		_, err := p.Fetch(t.Context(), "sub_1")
		e := fault.From(err)
		if e.Kind != kind {
			t.Errorf("status %d: kind of %v = %v, want %v", code, e, e.Kind, kind)
		}
		if strings.Contains(e.Error(), "canary") {
			t.Errorf("status %d: the error quotes the answer or the key: %v", code, e)
		}
		<-status
	}
}

// TestPortal_SaysThatItsSettingsAreMissing: Stripe makes no page for what the settings of the portal do not allow, and
// by default they allow no change of a plan.
func TestPortal_SaysThatItsSettingsAreMissing(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"No configuration provided and your live mode default configuration has not been created. Provide a " +
			"configuration or create your default by saving your customer portal settings in live mode.": true,
		"This subscription cannot be updated because the subscription update feature in the portal configuration is " +
			"disabled.": true,
		"Invalid URL": false,
	} {
		p := openPayments(t, nil)
		p.client.http.Transport = &transport{answers: []answer{
			{status: 400, body: `{"error": {"type": "invalid_request_error", "message": "` + message + `"}}`},
		}}
		_, err := p.Portal(t.Context(), "cus_1")
		if fault.From(err).Kind != fault.Internal || strings.Contains(err.Error(), "customer portal") != want {
			t.Errorf("%s: %v, want that it asks for the settings: %t", message, err, want)
		}
	}
}

func TestPortal_UnreachableStripeIsUnavailable(t *testing.T) {
	t.Parallel()
	gone := openPayments(t, func(o *Options) { o.URL, o.Timeout = "http://127.0.0.1:1", 2*time.Second })
	if _, err := gone.Portal(t.Context(), "cus_1"); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Portal returned %v, want kind Unavailable", err)
	}
}

func TestOpen_RefusesMissingOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{Key: "k", WebhookSecret: "w"},
		{Key: "k", ReturnURL: "r"},
		{WebhookSecret: "w", ReturnURL: "r"},
	} {
		if _, err := Open(o); err == nil {
			t.Errorf("Open(%+v) returned no error", o)
		}
	}
}

// TestCheckout_SellsAfterTheCustomerWasDeleted: in Stripe's dashboard, for example. All pages then have the same new
// customer.
func TestCheckout_SellsAfterTheCustomerWasDeleted(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	order := billing.Order{OrganizationID: "org_" + uuid.NewString(), Plan: plan.Starter, Interval: billing.Month}
	first := openCheckout(t, p, order)
	bought := pay(t, first)
	stripeServer.DeleteCustomer(first.CustomerID)
	if live, err := p.ListLive(t.Context(), order.OrganizationID, first.CustomerID); err != nil || len(live) > 0 {
		t.Errorf("the live subscriptions of a deleted customer are %v, %v; want none", live, err)
	}
	order.Present = billing.Subscription{
		Provider: billing.Stripe, ID: bought, Status: billing.Canceled, CustomerID: first.CustomerID,
	}
	if _, err := p.Portal(t.Context(), first.CustomerID); fault.Code(err) != "no_subscription" {
		t.Errorf("the portal of a deleted customer: %v, want no_subscription", err)
	}
	var customers []string
	for range 2 {
		customers = append(customers, openCheckout(t, p, order).CustomerID)
	}
	if customers[0] == first.CustomerID || customers[0] != customers[1] {
		t.Errorf("the pages have the customers %q, want one other than %s", customers, first.CustomerID)
	}
}

// TestCheckout_PagesOfOneOrganizationHaveOneCustomer buys on two pages that were opened before anything was paid. The
// first payment ends a third page.
func TestCheckout_PagesOfOneOrganizationHaveOneCustomer(t *testing.T) {
	t.Parallel()
	p := openPayments(t, nil)
	organization := "org_" + uuid.NewString()
	open := func(of string) billing.Session {
		return openCheckout(t, p, billing.Order{OrganizationID: of, Plan: plan.Pro, Interval: billing.Month})
	}
	first, second, third, other := open(organization), open(organization), open(organization), open("org_other")
	if first.CustomerID == "" || first.CustomerID != second.CustomerID || first.CustomerID == other.CustomerID {
		t.Errorf("the customers are %q, %q, and of another organization %q; want one of each organization",
			first.CustomerID, second.CustomerID, other.CustomerID)
	}
	want := []string{pay(t, first), pay(t, second)}
	ended := pay(t, openCheckout(t, p, billing.Order{
		OrganizationID: organization, Plan: plan.Pro, Interval: billing.Month,
		Present: billing.Subscription{CustomerID: first.CustomerID},
	}))
	changeSubscription(t, ended, stripeemu.Status("canceled"))
	for range 2 { // none is open at the second time
		if err := p.EndCheckouts(t.Context(), first.CustomerID); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := stripeServer.Pay(third.URL); err == nil {
		t.Errorf("%s was bought on a page that had ended", id)
	}
	if _, err := stripeServer.Pay(other.URL); err != nil {
		t.Errorf("the page of another organization has ended: %v", err)
	}
	live, err := p.ListLive(t.Context(), organization, first.CustomerID)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range live {
		got = append(got, s.ID)
		if s.Plan != plan.Pro || s.Status != billing.Active {
			t.Errorf("the live subscription %s is %s (%s), want %s (active)", s.ID, s.Plan, s.Status, plan.Pro)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("live subscriptions %v, want %v", got, want)
	}
	if live, err := p.ListLive(t.Context(), "org_other", first.CustomerID); err != nil || len(live) != 0 {
		t.Errorf("another organization has the subscriptions %v (%v) of the customer, want none", live, err)
	}
}
