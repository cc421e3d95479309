package billingtest

import (
	"fmt"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// clockedEnforcer is an enforcer whose clock a test sets.
type clockedEnforcer struct {
	*billing.Enforcer
	fixture  Fixture
	provider *fakeProvider
	time     time.Time
}

func (w Fixture) enforcer(p *fakeProvider) *clockedEnforcer {
	e := &clockedEnforcer{fixture: w, provider: p, time: now()}
	e.Enforcer = &billing.Enforcer{
		Store: w.Processes[1], Payments: p, Agents: w.Agents, Now: func() time.Time { return e.time },
	}
	return e
}

// run lets time pass, runs the enforcer and checks how often it fetched.
func (e *clockedEnforcer) run(t *testing.T, after time.Duration, wantFetches int) {
	t.Helper()
	e.time = e.time.Add(after)
	before := e.provider.fetches
	if err := e.Run(t.Context()); err != nil {
		t.Fatalf("billingtest: run the enforcer: %v", err)
	}
	if got := e.provider.fetches - before; got != wantFetches {
		t.Errorf("billingtest: %d fetches after %s, want %d", got, after, wantFetches)
	}
}

// subscribe handles the event of a new subscription. Later changes at the provider send no events.
func (w Fixture) subscribe(t *testing.T, id string, p *fakeProvider, s billing.Subscription) {
	t.Helper()
	p.set(billing.State{OrganizationID: id, Subscription: s}, nil)
	if err := w.service(p).HandleEvent(t.Context(), event("evt_"+id)); err != nil {
		t.Fatalf("billingtest: handle an event: %v", err)
	}
}

// lostEvents changes subscriptions at the provider without an event. The enforcer must notice each change.
func lostEvents(t *testing.T, w Fixture) {
	subscribed := func(status billing.Status, ends time.Duration) billing.Subscription {
		s := paidSubscription(plan.Pro)
		s.Status, s.PeriodEnd, s.CancelAtPeriodEnd, s.PendingPlan = status, now().Add(ends), false, ""
		return s
	}
	const year = 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		before, current billing.Subscription
		quiet           time.Duration // the enforcer need not fetch yet
		after           time.Duration // after the quiet time, the change must be known
		wantPlan        plan.ID
		wantStatus      organization.Status
	}{
		"overdue payment made": {
			before: subscribed(billing.PastDue, year), current: subscribed(billing.Active, year),
			quiet: 59 * time.Minute, after: time.Minute, wantPlan: plan.Pro, wantStatus: organization.Active,
		},
		"canceled within the period": {
			before: subscribed(billing.Active, year), current: subscribed(billing.Canceled, year),
			quiet: 23 * time.Hour, after: time.Hour, wantPlan: plan.Hobby, wantStatus: organization.Active,
		},
		"payment failed at the end of the period": {
			before: subscribed(billing.Active, 5*time.Hour), current: subscribed(billing.PastDue, year),
			quiet: 4*time.Hour + 59*time.Minute, after: 2 * time.Minute, wantPlan: plan.Pro,
			wantStatus: organization.PastDue,
		},
		"first payment made": {
			before: subscribed(billing.None, year), current: subscribed(billing.Active, year),
			quiet: 23 * time.Hour, after: time.Hour, wantPlan: plan.Pro, wantStatus: organization.Active,
		},
	} {
		id, ctx := w.tenant(t)
		p := &fakeProvider{}
		w.subscribe(t, id, p, c.before)
		e := w.enforcer(p)
		e.run(t, 0, 0)
		p.set(billing.State{OrganizationID: id, Subscription: c.current}, nil)
		e.run(t, c.quiet, 0)
		e.run(t, c.after, 1)
		if got := w.account(t, id); got.Plan != c.wantPlan || got.Status != c.wantStatus {
			t.Errorf("billingtest: %s: plan %s and status %s, want %s and %s", name, got.Plan, got.Status, c.wantPlan,
				c.wantStatus)
		}
		entries, err := w.Entries(ctx, id)
		if err != nil || len(entries) != 2 {
			t.Errorf("billingtest: %s: %d audit entries, %v; want one for each of the 2 changes", name, len(entries),
				err)
		}
		// The next test's enforcer must not find this account due.
		if err := w.Processes[0].Postpone(ctx, w.account(t, id), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// overduePeriod: while the provider still reports the old period, the subscription is fetched every hour, and the audit
// log gets no entries.
func overduePeriod(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	p, s := &fakeProvider{}, paidSubscription(plan.Pro)
	s.PeriodEnd = now().Add(time.Hour)
	w.subscribe(t, id, p, s)
	e := w.enforcer(p)
	e.run(t, 2*time.Hour, 1)
	e.run(t, 59*time.Minute, 0)
	e.run(t, time.Minute, 1)
	if entries, err := w.Entries(ctx, id); err != nil || len(entries) != 1 {
		t.Errorf("billingtest: %d audit entries, %v; want 1", len(entries), err)
	}
}

// providerDown: while the provider is down, a run calls it once, and accounts are enforced as they are known.
func providerDown(t *testing.T, w Fixture) {
	p := &fakeProvider{}
	var agents []agent.Agent
	for range 3 {
		id, ctx := w.tenant(t)
		w.subscribe(t, id, p, paidSubscription(plan.Pro))
		g, err := w.Agents.Create(ctx, agenttest.Draft(plan.Hobby))
		if err != nil {
			t.Fatalf("billingtest: create an agent: %v", err)
		}
		if err := w.service(p).Suspend(asOperator(t.Context(), id), id, true); err != nil {
			t.Fatalf("billingtest: suspend: %v", err)
		}
		g.OrganizationID = id
		agents = append(agents, g)
	}
	e := w.enforcer(p)
	e.time = e.time.Add(25 * time.Hour)
	p.set(billing.State{}, fault.New(fault.Unavailable, "payment_provider_unavailable", "Down."))
	before := p.fetches
	if err := e.Run(t.Context()); !fault.Is(err, fault.Unavailable) {
		t.Errorf("billingtest: run while the provider is down: %v, want unavailable", err)
	}
	if got := p.fetches - before; got != 1 {
		t.Errorf("billingtest: %d fetches while the provider is down, want 1", got)
	}
	for _, g := range agents {
		got, err := w.Agents.Get(asOperator(t.Context(), g.OrganizationID), g.ID)
		if err != nil || got.Status != agent.Paused {
			t.Errorf("billingtest: an agent of a suspended organization is %s, %v; want paused", got.Status, err)
		}
	}
}

// fetchRate: one run fetches at most 100 subscriptions. The others are fetched later.
func fetchRate(t *testing.T, w Fixture) {
	p := &fakeProvider{}
	const organizations = 103
	ids := map[string]string{}
	for i := range organizations {
		id, ctx := w.tenant(t)
		a, s := w.account(t, id), paidSubscription(plan.Pro)
		s.ID = fmt.Sprint("sub_", i)
		a.ApplySubscription(s, now())
		w.save(ctx, t, a, "")
		ids[s.ID] = id
	}
	p.answer = func(subscriptionID string) billing.State {
		s := paidSubscription(plan.Pro)
		s.ID = subscriptionID
		return billing.State{OrganizationID: ids[subscriptionID], Subscription: s}
	}
	e := w.enforcer(p)
	e.run(t, 0, 100)
	e.run(t, 10*time.Minute, 3)
	e.run(t, 10*time.Minute, 0)
}
