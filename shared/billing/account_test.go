package billing_test

import (
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

var start = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

const day = 24 * time.Hour

// account is an organization on a plan that it pays for.
func account(status billing.Status, on plan.ID) billing.Account {
	a := billing.Account{Organization: organization.New("org_1", start)}
	a.ApplySubscription(subscription("sub_1", status, on), start)
	return a
}

func subscription(id string, status billing.Status, on plan.ID) billing.Subscription {
	return billing.Subscription{
		Provider: billing.Stripe, ID: id, CustomerID: "cus_1", Status: status, Plan: on, Interval: billing.Month,
		PeriodStart: start, PeriodEnd: start.Add(30 * day), StartedAt: start,
	}
}

// TestTake: what the provider has now decides plan and status, whatever was known before.
func TestTake(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, present billing.Subscription
		plan            plan.ID
		status          organization.Status
		id              string
	}{
		"the first payment": {before: billing.Subscription{},
			present: subscription("sub_1", billing.Active, plan.Startup), plan: plan.Startup,
			status: organization.Active, id: "sub_1"},
		"a trial": {before: billing.Subscription{},
			present: subscription("sub_1", billing.Trialing, plan.Pro), plan: plan.Pro, status: organization.Active,
			id: "sub_1"},
		"not paid yet": {before: billing.Subscription{},
			present: subscription("sub_1", billing.None, plan.Pro), plan: plan.Hobby, status: organization.Active,
			id: "sub_1"},
		"an upgrade": {before: subscription("sub_1", billing.Active, plan.Starter),
			present: subscription("sub_1", billing.Active, plan.Pro), plan: plan.Pro, status: organization.Active,
			id: "sub_1"},
		"a failed payment": {before: subscription("sub_1", billing.Active, plan.Pro),
			present: subscription("sub_1", billing.PastDue, plan.Pro), plan: plan.Pro, status: organization.PastDue,
			id: "sub_1"},
		"paid after all": {before: subscription("sub_1", billing.PastDue, plan.Pro),
			present: subscription("sub_1", billing.Active, plan.Pro), plan: plan.Pro, status: organization.Active,
			id: "sub_1"},
		"canceled": {before: subscription("sub_1", billing.Active, plan.Pro),
			present: subscription("sub_1", billing.Canceled, plan.Pro), plan: plan.Hobby, status: organization.Active,
			id: "sub_1"},
		"canceled while past due": {before: subscription("sub_1", billing.PastDue, plan.Pro),
			present: subscription("sub_1", billing.Canceled, plan.Pro), plan: plan.Hobby, status: organization.Active,
			id: "sub_1"},
		"another one, that is dead": {before: subscription("sub_1", billing.Active, plan.Pro),
			present: subscription("sub_2", billing.Canceled, plan.Starter), plan: plan.Pro, status: organization.Active,
			id: "sub_1"},
		"another one, that is new": {before: subscription("sub_1", billing.Active, plan.Pro),
			present: later(subscription("sub_2", billing.Active, plan.Starter)), plan: plan.Starter,
			status: organization.Active, id: "sub_2"},
		"another one, that is older": {before: later(subscription("sub_2", billing.Active, plan.Starter)),
			present: subscription("sub_1", billing.Active, plan.Pro), plan: plan.Starter, status: organization.Active,
			id: "sub_2"},
		"again after a cancellation": {before: later(subscription("sub_1", billing.Canceled, plan.Pro)),
			present: subscription("sub_2", billing.Active, plan.Starter), plan: plan.Starter,
			status: organization.Active, id: "sub_2"},
		"bought after the operator's": {before: billing.Subscription{Provider: billing.Manual, Status: billing.Active,
			Plan: plan.Enterprise}, present: later(subscription("sub_1", billing.Active, plan.Pro)), plan: plan.Pro,
			status: organization.Active, id: "sub_1"},
	} {
		a := billing.Account{Organization: organization.New("org_1", start)}
		if c.before.Status != "" {
			a.ApplySubscription(c.before, start)
		}
		a.ApplySubscription(c.present, start.Add(day))
		if a.Plan != c.plan || a.Status != c.status || a.Subscription.ID != c.id {
			t.Errorf("%s: plan %s, status %s, subscription %s; want %s, %s, %s", name, a.Plan, a.Status,
				a.Subscription.ID, c.plan, c.status, c.id)
		}
	}
}

func later(s billing.Subscription) billing.Subscription {
	s.StartedAt = s.StartedAt.Add(day)
	return s
}

// TestTakeAgain: what is known already changes nothing, and a payment that fails again doesn't begin another grace.
func TestTakeAgain(t *testing.T) {
	t.Parallel()
	a := account(billing.PastDue, plan.Pro)
	a.DueAt = start.Add(billing.Grace)
	before := a
	a.ApplySubscription(subscription("sub_1", billing.PastDue, plan.Pro), start.Add(3*day))
	if a != before {
		t.Errorf("the same state changed the account:\n got %+v\nwant %+v", a, before)
	}
	next := subscription("sub_1", billing.PastDue, plan.Pro)
	next.PeriodEnd = next.PeriodEnd.Add(30 * day)
	a.ApplySubscription(next, start.Add(3*day))
	if !a.Subscription.PastDueSince.Equal(start) || !a.Withheld(start.Add(7*day)) || a.Withheld(start.Add(7*day-1)) {
		t.Errorf("past due since %s, want %s", a.Subscription.PastDueSince, start)
	}
	a.ApplySubscription(subscription("sub_1", billing.Active, plan.Pro), start.Add(4*day))
	a.ApplySubscription(subscription("sub_1", billing.PastDue, plan.Pro), start.Add(5*day))
	if a.Withheld(start.Add(7*day)) || !a.Withheld(start.Add(12*day)) {
		t.Error("after a payment that was made, the next failure has a grace of its own")
	}
}

func TestSuspend(t *testing.T) {
	t.Parallel()
	a := account(billing.Active, plan.Pro)
	a.Suspend(true, start)
	a.ApplySubscription(subscription("sub_1", billing.Active, plan.Starter), start)
	if a.Status != organization.Suspended || !a.Withheld(start) || a.Plan != plan.Starter {
		t.Errorf("a payment ended the operator's suspension: %+v", a)
	}
	a.Suspend(false, start.Add(day))
	if a.Status != organization.Active || a.Withheld(start) || !a.DueAt.Equal(start.Add(day)) {
		t.Errorf("after the suspension: %+v", a)
	}
}

// TestOrder: who may buy what.
func TestOrder(t *testing.T) {
	t.Parallel()
	full := account(billing.Active, plan.Startup)
	full.Usage = organization.Usage{Agents: 4, CPUMillis: 8000, MemoryBytes: 16 << 30, StorageBytes: 80 << 30}
	ending := account(billing.Active, plan.Startup)
	ending.Subscription.PendingPlan = plan.Hobby
	for name, c := range map[string]struct {
		account  billing.Account
		to       plan.ID
		interval billing.Interval
		kind     fault.Kind
		code     string
	}{
		"the first plan": {account: billing.Account{Organization: organization.New("o", start)},
			to: plan.Starter, interval: billing.Month, kind: 0, code: ""},
		"a larger plan":    {account: full, to: plan.Business, interval: billing.Month, kind: 0, code: ""},
		"another interval": {account: full, to: plan.Startup, interval: billing.Year, kind: 0, code: ""},
		"a smaller plan": {account: account(billing.Active, plan.Pro), to: plan.Starter,
			interval: billing.Month, kind: 0, code: ""},
		"a smaller plan, too full": {account: full, to: plan.Starter, interval: billing.Month, kind: fault.Conflict,
			code: "usage_over_plan"},
		"to stay after all": {account: ending, to: plan.Startup, interval: billing.Month, kind: 0, code: ""},
		"to leave, too full": {account: full, to: plan.Hobby, interval: billing.Month, kind: fault.Conflict,
			code: "usage_over_plan"},
		"what it has": {account: full, to: plan.Startup, interval: billing.Month, kind: fault.Conflict,
			code: "plan_unchanged"},
		"nothing, having nothing": {account: account(billing.Canceled, plan.Pro), to: plan.Hobby,
			interval: billing.Month, kind: fault.Conflict, code: "plan_unchanged"},
		"enterprise": {account: full, to: plan.Enterprise, interval: billing.Month, kind: fault.Forbidden,
			code: "plan_feature_required"},
		"while a payment is open": {account: account(billing.PastDue, plan.Starter), to: plan.Pro,
			interval: billing.Month, kind: fault.PaymentRequired, code: "subscription_past_due"},
	} {
		o, err := c.account.NewOrder(c.to, c.interval, func() ([]agent.Agent, error) { return nil, nil })
		if e := fault.From(err); c.code != "" && (e == nil || e.Kind != c.kind || e.Code != c.code) || c.code == "" &&
			err != nil {
			t.Errorf("%s: %v, want %q", name, err, c.code)
		}
		if want := (billing.Order{OrganizationID: c.account.ID, Present: c.account.Subscription, Plan: c.to,
			Interval: c.interval}); err == nil && o != want {
			t.Errorf("%s: order %+v, want %+v", name, o, want)
		}
	}
}

// TestOver: the list names every amount and every agent that a plan has no room for.
func TestOver(t *testing.T) {
	t.Parallel()
	a := account(billing.Active, plan.Startup)
	a.Usage = organization.Usage{Agents: 4, CPUMillis: 4500, MemoryBytes: 7 << 30, StorageBytes: 35 << 30, APIKeys: 3}
	agents := []agent.Agent{
		{ID: "1", Name: "large", Plan: plan.Startup, Status: agent.Stopped},
		{ID: "2", Plan: plan.Starter, Status: agent.Running},
		{ID: "3", Plan: plan.Startup, Status: agent.Deleting},
	}
	starter, _ := plan.Get(plan.Starter)
	e := fault.From(a.CheckPlanFits(starter, agents))
	over, _ := e.Meta["over"].([]billing.Excess)
	want := []billing.Excess{
		{Limit: "agents", Current: int64(4), Max: int64(3)},
		{Limit: "cpu_cores", Current: 4.5, Max: 3.0},
		{Limit: "memory_bytes", Current: int64(7 << 30), Max: int64(6 << 30)},
		{Limit: "storage_bytes", Current: int64(35 << 30), Max: int64(30 << 30)},
		{Limit: "resource_plan", Current: plan.Startup, Max: plan.Starter, AgentID: "1", Name: "large"},
	}
	if e.Kind != fault.Conflict || len(over) != len(want) {
		t.Fatalf("%v: %+v", e, over)
	}
	for i := range want {
		if over[i] != want[i] {
			t.Errorf("over %+v, want %+v", over[i], want[i])
		}
	}
	pro, _ := plan.Get(plan.Pro)
	if err := a.CheckPlanFits(pro, agents); err != nil {
		t.Errorf("a larger plan: %v", err)
	}
}
