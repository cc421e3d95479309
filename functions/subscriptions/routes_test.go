package subscriptions_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/functions/backendtest"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/functions/subscriptions"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/plan"
)

func checkout(t *testing.T, b *backendtest.Backend, body map[string]any) functiontest.Response {
	t.Helper()
	return b.Call(t, subscriptions.Checkout(b.Accounts, b.Agents, b.Payments), functiontest.AsAdmin("org-1"),
		functiontest.Body(body))
}

func portal(t *testing.T, b *backendtest.Backend) functiontest.Response {
	t.Helper()
	return b.Call(t, subscriptions.Portal(b.Accounts, b.Payments), functiontest.AsAdmin("org-1"))
}

func subscription(t *testing.T, b *backendtest.Backend) subscriptions.SubscriptionView {
	t.Helper()
	var v subscriptions.SubscriptionView
	b.Call(t, subscriptions.Subscription(b.Accounts, b.Payments), functiontest.AsMember("org-1")).
		Want(t, http.StatusOK, "").Decode(t, &v)
	return v
}

// receive delivers an event about a subscription.
func receive(t *testing.T, b *backendtest.Backend, event, subscriptionID, signature string) functiontest.Response {
	t.Helper()
	service := &billing.Service{Store: b.Accounts, Payments: b.Payments, Agents: b.Agents, Now: time.Now}
	return b.Call(t, subscriptions.Webhook(service, b.Payments), functiontest.Header("Stripe-Signature", signature),
		functiontest.Body(map[string]any{
			"id":   event,
			"data": map[string]any{"object": map[string]any{"id": subscriptionID}},
		}))
}

// subscribe makes org-1 an organization that pays for a plan by the month.
func subscribe(t *testing.T, b *backendtest.Backend, p plan.ID) {
	t.Helper()
	b.SetPlan(t, "org-1", plan.Hobby)
	b.Stripe.Subscriptions["sub_1"] = billing.State{OrganizationID: "org-1", Subscription: billing.Subscription{
		Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: billing.Active, Plan: p,
		Interval: billing.Month, StartedAt: time.Now(),
	}}
	receive(t, b, "evt_"+string(p), "sub_1", "good").Want(t, http.StatusOK, "")
}

func TestRoutes_CheckTheirCallers(t *testing.T) {
	t.Parallel()
	functiontest.CheckRefusals(t, subscriptions.Plans(true), function.Member)
	functiontest.CheckRefusals(t, subscriptions.Subscription(nil, nil), function.Member)
	functiontest.CheckRefusals(t, subscriptions.Checkout(nil, nil, nil), function.Admin)
	functiontest.CheckRefusals(t, subscriptions.Portal(nil, nil), function.Admin)
}

func TestPlans_ListsThemFromTheSmallest(t *testing.T) {
	t.Parallel()
	var views []subscriptions.PlanView
	functiontest.Call(t, subscriptions.Plans(true), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "").
		Decode(t, &views)
	if len(views) != 6 || views[0].ID != plan.Hobby || views[5].ID != plan.Enterprise {
		t.Fatalf("plans = %+v, want six from hobby to enterprise", views)
	}
	for _, v := range views {
		sleeps := v.SleepAfterSeconds != nil
		if sleeps != (v.ID == plan.Hobby) || sleeps && *v.SleepAfterSeconds != 1800 {
			t.Errorf("agents of the plan %s sleep after %v, want those of hobby after 1800 s and no others", v.ID,
				v.SleepAfterSeconds)
		}
	}
	if got := views[0].Agent; got.CPUCores != 0.5 || got.MemoryBytes != 1<<30 {
		t.Errorf("an agent on hobby has the size %+v, want half a core and 1 GiB", got)
	}
	for i, want := range [][]string{
		{},
		1: {"all_ports", "exec"}, 2: {"all_ports", "custom_images", "exec"},
		4: {"all_ports", "daily_backups", "custom_images", "exec"},
		5: {"all_ports", "daily_backups", "audit_log", "custom_images", "exec"},
	} {
		if want != nil && !slices.Equal(views[i].Features, want) {
			t.Errorf("features of %s = %v, want %v", views[i].ID, views[i].Features, want)
		}
	}
	if views[5].PriceUSDMonth != nil {
		t.Errorf("the price of enterprise = %v, want null", *views[5].PriceUSDMonth)
	}
}

func TestPlans_NameDailyBackupsIfThereAreAny(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} {
		var views []subscriptions.PlanView
		functiontest.Call(t, subscriptions.Plans(made), functiontest.AsMember("org-1")).Want(t, http.StatusOK, "").
			Decode(t, &views)
		for _, v := range views {
			want := made && (v.ID == plan.Business || v.ID == plan.Enterprise)
			if got := slices.Contains(v.Features, plan.DailyBackups); got != want {
				t.Errorf("%s has daily backups: %t, want %t where they are made: %t", v.ID, got, want, made)
			}
		}
	}
}

func TestSubscription_OfANewOrganization(t *testing.T) {
	t.Parallel()
	v := subscription(t, backendtest.New(t))
	want := subscriptions.SubscriptionView{Plan: plan.Hobby, Status: billing.None, Provider: billing.Stripe}
	if v != want {
		t.Errorf("subscription = %+v, want %+v", v, want)
	}
}

// TestSubscription_NamesTheProviderThatSells: the operator grants a plan, as by contract, and ends that. Then the
// organization buys plans as any other does, and the console offers them.
func TestSubscription_NamesTheProviderThatSells(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	b.SetPlan(t, "org-1", plan.Hobby)
	service := &billing.Service{Store: b.Accounts, Payments: billing.NoProvider{}, Agents: b.Agents, Now: time.Now}
	for _, row := range []struct {
		to           plan.ID
		wantProvider billing.Provider
	}{
		{to: plan.Starter, wantProvider: billing.Manual},
		{to: plan.Hobby, wantProvider: billing.Stripe},
	} {
		to, err := plan.Get(row.to)
		if err == nil {
			err = service.SetPlan(call.AsSystem(t.Context(), "operator", "org-1"), "org-1", to, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		if v := subscription(t, b); v.Plan != row.to || v.Provider != row.wantProvider {
			t.Errorf("on the plan %s, set by the operator, the subscription is %+v, want the provider %s", row.to, v,
				row.wantProvider)
		}
	}
}

// TestSubscription_ShowsNoPlanOfALaterRelease: clients read pending_plan as one of the plans that the description
// lists.
func TestSubscription_ShowsNoPlanOfALaterRelease(t *testing.T) {
	t.Parallel()
	for pending, want := range map[plan.ID]string{"gold": "null", plan.Starter: "starter"} {
		b := backendtest.New(t)
		b.SetPlan(t, "org-1", plan.Pro)
		ctx := call.AsSystem(t.Context(), "stripe", "org-1")
		a, err := b.Accounts.Account(ctx, "org-1")
		if err != nil {
			t.Fatal(err)
		}
		a.ApplySubscription(billing.Subscription{
			Provider: billing.Stripe, ID: "sub_1", Status: billing.Active, Plan: plan.Pro, PendingPlan: pending,
		}, time.Now())
		if err := b.Accounts.Save(ctx, a, ""); err != nil {
			t.Fatal(err)
		}
		got := "null"
		if v := subscription(t, b); v.PendingPlan != nil {
			got = string(*v.PendingPlan)
		}
		if got != want {
			t.Errorf("pending_plan is %s while the plan %s follows, want %s", got, pending, want)
		}
	}
}

func TestCheckout_OrdersAPlanByTheMonthUnlessToldOtherwise(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	res := checkout(t, b, map[string]any{"plan": "pro"}).Want(t, http.StatusOK, "")
	if got, want := res.Text("url"), "https://pay.test/pro"; got != want {
		t.Errorf("url = %q, want %q", got, want)
	}
	checkout(t, b, map[string]any{"plan": "pro", "interval": "year"}).Want(t, http.StatusOK, "")
	if len(b.Stripe.Orders) != 2 || b.Stripe.Orders[0].Interval != billing.Month ||
		b.Stripe.Orders[1].Interval != billing.Year {
		t.Errorf("orders = %+v, want one by the month and one by the year", b.Stripe.Orders)
	}
}

func TestCheckout_RefusesPlansThatItCannotSell(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	checkout(t, b, map[string]any{"plan": "enterprise"}).Want(t, http.StatusForbidden, "plan_feature_required")
	checkout(t, b, map[string]any{"plan": "hobby"}).Want(t, http.StatusConflict, "plan_unchanged")
	checkout(t, b, map[string]any{"plan": "gold"}).Want(t, http.StatusUnprocessableEntity, "validation_error")
	if len(b.Stripe.Orders) > 0 {
		t.Errorf("orders = %+v, want none", b.Stripe.Orders)
	}
}

func TestCheckout_RefusesAPlanThatTheAgentsDoNotFit(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	subscribe(t, b, plan.Pro)
	for range 2 {
		b.RunningAgent(t, "org-1", nil)
	}
	checkout(t, b, map[string]any{"plan": "hobby"}).Want(t, http.StatusConflict, "usage_over_plan")
}

func TestPortal_IsForOrganizationsThatSubscribed(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	portal(t, b).Want(t, http.StatusConflict, "no_subscription")
	subscribe(t, b, plan.Starter)
	if got, want := portal(t, b).Want(t, http.StatusOK, "").Text("url"), "https://pay.test/cus_1"; got != want {
		t.Errorf("url = %q, want %q", got, want)
	}
}

func TestWebhook_AppliesTheSubscription(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	subscribe(t, b, plan.Pro)
	v := subscription(t, b)
	if v.Plan != plan.Pro || v.Status != billing.Active || v.Interval == nil || *v.Interval != billing.Month {
		t.Errorf("subscription = %+v, want the plan pro, active, by the month", v)
	}
}

func TestWebhook_RefusesAForgedEvent(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	receive(t, b, "evt_1", "sub_1", backendtest.ForgedSignature).
		Want(t, http.StatusBadRequest, "invalid_signature")
}

func TestWebhook_AcceptsEventsAboutOtherSubscriptions(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	res := receive(t, b, "evt_1", "sub_of_another_service", "good").Want(t, http.StatusOK, "")
	if res.JSON["received"] != true {
		t.Errorf("received = %v, want true", res.JSON["received"])
	}
	if v := subscription(t, b); v.Status != billing.None {
		t.Errorf("status = %s, want none", v.Status)
	}
}

// TestCheckout_RemembersTheCustomer: without an event, what is paid on the page is found by its customer.
func TestCheckout_RemembersTheCustomer(t *testing.T) {
	t.Parallel()
	b := backendtest.New(t)
	checkout(t, b, map[string]any{"plan": "pro"}).Want(t, http.StatusOK, "")
	a, err := b.Accounts.Account(t.Context(), "org-1")
	if err != nil {
		t.Fatal(err)
	}
	if a.Subscription.CustomerID != "cus_org-1" || a.Subscription.Status != billing.None || a.DueAt.IsZero() {
		t.Errorf("the account has the customer %q with status %s and is due %v, want cus_org-1, none and in an hour",
			a.Subscription.CustomerID, a.Subscription.Status, a.DueAt)
	}
	// The operator grants a plan, and the organization buys one as the customer that it was.
	a.Subscription.Provider, a.Subscription.Status, a.Subscription.Plan = billing.Manual, billing.Active, plan.Starter
	if err = b.Accounts.Save(call.AsSystem(t.Context(), "operator", "org-1"), a, ""); err == nil {
		a, err = b.Accounts.Account(t.Context(), "org-1")
	}
	if err == nil {
		err = b.Accounts.Postpone(t.Context(), a, time.Time{}) // what the Enforcer does
	}
	if err != nil {
		t.Fatal(err)
	}
	checkout(t, b, map[string]any{"plan": "pro"}).Want(t, http.StatusOK, "")
	if a, err = b.Accounts.Account(t.Context(), "org-1"); err != nil || a.DueAt.IsZero() {
		t.Errorf("after a grant, the account is due %v, %v, want in an hour", a.DueAt, err)
	}
}
