package billing_test

import (
	"cmp"
	"reflect"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

var start = time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)

const day = 24 * time.Hour

// account makes the account of an organization with a subscription.
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

func TestAccount_ApplySubscriptionDerivesPlanAndStatus(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before, current    billing.Subscription
		wantPlan           plan.ID
		wantStatus         organization.Status // Active if empty
		wantSubscriptionID string              // sub_1 if empty
	}{
		"first payment": {
			current: subscription("sub_1", billing.Active, plan.Startup), wantPlan: plan.Startup,
		},
		"trial":                  {current: subscription("sub_1", billing.Trialing, plan.Pro), wantPlan: plan.Pro},
		"first payment not made": {current: subscription("sub_1", billing.None, plan.Pro), wantPlan: plan.Hobby},
		"upgrade": {
			before:  subscription("sub_1", billing.Active, plan.Starter),
			current: subscription("sub_1", billing.Active, plan.Pro), wantPlan: plan.Pro,
		},
		"failed payment": {
			before:   subscription("sub_1", billing.Active, plan.Pro),
			current:  subscription("sub_1", billing.PastDue, plan.Pro),
			wantPlan: plan.Pro, wantStatus: organization.PastDue,
		},
		"overdue payment made": {
			before:  subscription("sub_1", billing.PastDue, plan.Pro),
			current: subscription("sub_1", billing.Active, plan.Pro), wantPlan: plan.Pro,
		},
		"canceled": {
			before:  subscription("sub_1", billing.Active, plan.Pro),
			current: subscription("sub_1", billing.Canceled, plan.Pro), wantPlan: plan.Hobby,
		},
		"canceled while past due": {
			before:  subscription("sub_1", billing.PastDue, plan.Pro),
			current: subscription("sub_1", billing.Canceled, plan.Pro), wantPlan: plan.Hobby,
		},
		"another one that is canceled": {
			before:  subscription("sub_1", billing.Active, plan.Pro),
			current: subscription("sub_2", billing.Canceled, plan.Starter), wantPlan: plan.Pro,
		},
		"another one that started later": {
			before:   subscription("sub_1", billing.Active, plan.Pro),
			current:  later(subscription("sub_2", billing.Active, plan.Starter)),
			wantPlan: plan.Starter, wantSubscriptionID: "sub_2",
		},
		"another one that started earlier": {
			before:   later(subscription("sub_2", billing.Active, plan.Starter)),
			current:  subscription("sub_1", billing.Active, plan.Pro),
			wantPlan: plan.Starter, wantSubscriptionID: "sub_2",
		},
		"subscribed again after a cancellation": {
			before:   later(subscription("sub_1", billing.Canceled, plan.Pro)),
			current:  subscription("sub_2", billing.Active, plan.Starter),
			wantPlan: plan.Starter, wantSubscriptionID: "sub_2",
		},
		"bought after a manual plan": {
			before:  billing.Subscription{Provider: billing.Manual, Status: billing.Active, Plan: plan.Enterprise},
			current: later(subscription("sub_1", billing.Active, plan.Pro)), wantPlan: plan.Pro,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := billing.Account{Organization: organization.New("org_1", start)}
			if c.before.Status != "" {
				a.ApplySubscription(c.before, start)
			}
			a.ApplySubscription(c.current, start.Add(day))
			if a.Plan != c.wantPlan {
				t.Errorf("Plan = %s, want %s", a.Plan, c.wantPlan)
			}
			if want := cmp.Or(c.wantStatus, organization.Active); a.Status != want {
				t.Errorf("Status = %s, want %s", a.Status, want)
			}
			if want := cmp.Or(c.wantSubscriptionID, "sub_1"); a.Subscription.ID != want {
				t.Errorf("Subscription.ID = %s, want %s", a.Subscription.ID, want)
			}
		})
	}
}

func later(s billing.Subscription) billing.Subscription {
	s.StartedAt = s.StartedAt.Add(day)
	return s
}

func TestAccount_ApplySubscriptionIgnoresAKnownState(t *testing.T) {
	t.Parallel()
	a := account(billing.PastDue, plan.Pro)
	a.DueAt = start.Add(billing.Grace)
	before := a
	a.ApplySubscription(subscription("sub_1", billing.PastDue, plan.Pro), start.Add(3*day))
	if !reflect.DeepEqual(a, before) {
		t.Errorf("account = %+v after the same state again\nwant %+v", a, before)
	}
}

func TestAccount_GraceStartsWithTheFirstFailedPayment(t *testing.T) {
	t.Parallel()
	a := account(billing.PastDue, plan.Pro)
	next := subscription("sub_1", billing.PastDue, plan.Pro)
	next.PeriodEnd = next.PeriodEnd.Add(30 * day)
	a.ApplySubscription(next, start.Add(3*day))
	if !a.Subscription.PastDueSince.Equal(start) {
		t.Errorf("PastDueSince = %s after a second failure, want that of the first, %s", a.Subscription.PastDueSince,
			start)
	}
	wantWithheld(t, a, start.Add(7*day-1), false)
	wantWithheld(t, a, start.Add(7*day), true)

	a.ApplySubscription(subscription("sub_1", billing.Active, plan.Pro), start.Add(4*day))
	a.ApplySubscription(subscription("sub_1", billing.PastDue, plan.Pro), start.Add(5*day))
	wantWithheld(t, a, start.Add(7*day), false) // a payment in between starts a new grace period
	wantWithheld(t, a, start.Add(12*day), true)
}

func TestAccount_GraceEndsOnlyForAnOverduePayment(t *testing.T) {
	t.Parallel()
	overdue := account(billing.PastDue, plan.Pro)
	suspended := overdue
	suspended.Suspend(true, start)
	for name, row := range map[string]struct {
		account billing.Account
		want    time.Time
	}{
		"paid":                    {account: account(billing.Active, plan.Pro)},
		"canceled":                {account: account(billing.Canceled, plan.Pro)},
		"overdue":                 {account: overdue, want: start.Add(7 * day)},
		"overdue, also suspended": {account: suspended},
	} {
		if got := row.account.GraceEndsAt(); !got.Equal(row.want) {
			t.Errorf("%s: the grace period ends at %s, want %s", name, got, row.want)
		}
	}
}

func wantWithheld(t *testing.T, a billing.Account, at time.Time, want bool) {
	t.Helper()
	if got := a.Withheld(at); got != want {
		t.Errorf("Withheld(%s after the start) = %t, want %t", at.Sub(start), got, want)
	}
}

func TestAccount_PaymentDoesNotEndASuspension(t *testing.T) {
	t.Parallel()
	a := account(billing.Active, plan.Pro)
	a.Suspend(true, start)
	a.ApplySubscription(subscription("sub_1", billing.Active, plan.Starter), start)
	if a.Status != organization.Suspended {
		t.Errorf("Status = %s after a payment, want %s", a.Status, organization.Suspended)
	}
	if a.Plan != plan.Starter {
		t.Errorf("Plan = %s, want %s", a.Plan, plan.Starter)
	}
	wantWithheld(t, a, start, true)

	a.Suspend(false, start.Add(day))
	if a.Status != organization.Active {
		t.Errorf("Status = %s after the suspension, want %s", a.Status, organization.Active)
	}
	if want := start.Add(day); !a.DueAt.Equal(want) {
		t.Errorf("DueAt = %s after the suspension, want %s", a.DueAt, want)
	}
	wantWithheld(t, a, start, false)
}

func TestAccount_NewOrderChecksThePlan(t *testing.T) {
	t.Parallel()
	full := account(billing.Active, plan.Startup)
	full.Usage = organization.Usage{Agents: 4, CPUMillis: 8000, MemoryBytes: 16 << 30, StorageBytes: 80 << 30}
	ending := account(billing.Active, plan.Startup)
	ending.Subscription.PendingPlan = plan.Hobby
	suspended := account(billing.Active, plan.Startup)
	suspended.Suspend(true, start)
	for name, c := range map[string]struct {
		account  billing.Account
		to       plan.ID
		interval billing.Interval // Month if empty
		wantKind fault.Kind
		wantCode string // empty if the order is accepted
	}{
		"the first plan":   {account: billing.Account{Organization: organization.New("o", start)}, to: plan.Starter},
		"a larger plan":    {account: full, to: plan.Business},
		"another interval": {account: full, to: plan.Startup, interval: billing.Year},
		"a smaller plan":   {account: account(billing.Active, plan.Pro), to: plan.Starter},
		"a smaller plan, usage too high": {
			account: full, to: plan.Starter, wantKind: fault.Conflict, wantCode: "usage_over_plan",
		},
		"the present plan, while a downgrade is pending": {account: ending, to: plan.Startup},
		"the free plan, usage too high": {
			account: full, to: plan.Hobby, wantKind: fault.Conflict, wantCode: "usage_over_plan",
		},
		"the present plan": {account: full, to: plan.Startup, wantKind: fault.Conflict, wantCode: "plan_unchanged"},
		"the free plan, already on it": {
			account: account(billing.Canceled, plan.Pro), to: plan.Hobby,
			wantKind: fault.Conflict, wantCode: "plan_unchanged",
		},
		"a plan that is not for sale": {
			account: full, to: plan.Enterprise, wantKind: fault.Forbidden, wantCode: "plan_feature_required",
		},
		"while suspended": {
			account: suspended, to: plan.Business, wantKind: fault.PaymentRequired, wantCode: "billing_required",
		},
		"the free plan, while suspended": {account: suspended, to: plan.Hobby},
		"while a payment is overdue": {
			account: account(billing.PastDue, plan.Starter), to: plan.Pro,
			wantKind: fault.PaymentRequired, wantCode: "subscription_past_due",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			interval := cmp.Or(c.interval, billing.Month)
			got, err := c.account.NewOrder(c.to, interval, func() ([]agent.Agent, error) { return nil, nil })
			if c.wantCode != "" {
				if !fault.Is(err, c.wantKind) || fault.Code(err) != c.wantCode {
					t.Errorf("NewOrder(%s) = %v, want code %q of kind %v", c.to, err, c.wantCode, c.wantKind)
				}
				return
			}
			if err != nil {
				t.Fatalf("NewOrder(%s): %v", c.to, err)
			}
			if want := (billing.Order{
				OrganizationID: c.account.ID, Present: c.account.Subscription, Plan: c.to, Interval: interval,
			}); got != want {
				t.Errorf("NewOrder(%s) = %+v, want %+v", c.to, got, want)
			}
		})
	}
}

func TestAccount_CheckPlanFitsListsEveryExcess(t *testing.T) {
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
	if e == nil || e.Kind != fault.Conflict {
		t.Fatalf("CheckPlanFits(starter) = %v, want a conflict", e)
	}
	want := []billing.Excess{
		{Limit: "agents", Current: int64(4), Max: int64(3)},
		{Limit: "cpu_cores", Current: 4.5, Max: 3.0},
		{Limit: "memory_bytes", Current: int64(7 << 30), Max: int64(6 << 30)},
		{Limit: "storage_bytes", Current: int64(35 << 30), Max: int64(30 << 30)},
		{Limit: "resource_plan", Current: plan.Startup, Max: plan.Starter, AgentID: "1", Name: "large"},
	}
	if diff := gocmp.Diff(want, e.Meta["over"]); diff != "" {
		t.Errorf("excesses over starter (-want +got):\n%s", diff)
	}
	pro, _ := plan.Get(plan.Pro)
	if err := a.CheckPlanFits(pro, agents); err != nil {
		t.Errorf("CheckPlanFits(pro) = %v, want nil", err)
	}
}
