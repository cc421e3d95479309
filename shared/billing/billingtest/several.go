package billingtest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

// seller is a payment provider from which organizations bought several subscriptions.
type seller struct {
	fakeProvider
	sold map[string]billing.State
	// ended are the customers whose checkout pages were closed, and stuck is true while none can be.
	ended []string
	stuck bool
	// incomplete is true while the provider has live subscriptions that cannot be understood.
	incomplete bool
}

// sell sells subscriptions to an organization.
func (s *seller) sell(organizationID string, subscriptions ...billing.Subscription) {
	if s.sold == nil {
		s.sold = map[string]billing.State{}
	}
	for _, sold := range subscriptions {
		s.sold[sold.ID] = billing.State{OrganizationID: organizationID, Subscription: sold}
	}
}

// Fetch implements billing.Subscriptions.
func (s *seller) Fetch(_ context.Context, id string) (billing.State, error) {
	found, ok := s.sold[id]
	if !ok {
		return billing.State{}, fault.New(fault.NotFound, "not_found", "There is no such subscription.")
	}
	return found, nil
}

// ListLive implements billing.Subscriptions.
func (s *seller) ListLive(_ context.Context, organizationID, customerID string) (live []billing.Subscription, _ error) {
	for _, id := range slices.Sorted(maps.Keys(s.sold)) {
		found := s.sold[id]
		if found.OrganizationID == organizationID && found.Subscription.CustomerID == customerID &&
			found.Subscription.Live() {
			live = append(live, found.Subscription)
		}
	}
	if s.incomplete {
		return live, billing.ErrIncomplete
	}
	return live, nil
}

// EndCheckouts implements billing.Subscriptions.
func (s *seller) EndCheckouts(_ context.Context, customerID string) error {
	if s.stuck {
		return fault.New(fault.Unavailable, "payment_provider_unavailable", "It is away.")
	}
	s.ended = append(s.ended, customerID)
	return nil
}

func (s *seller) setStatus(id string, status billing.Status) {
	changed := s.sold[id]
	changed.Subscription.Status = status
	s.sold[id] = changed
}

// bought is a subscription that was bought some time ago.
func bought(id string, to plan.ID, ago time.Duration) billing.Subscription {
	s := paidSubscription(to)
	s.ID, s.CancelAtPeriodEnd, s.PendingPlan, s.StartedAt = id, false, "", now().Add(-ago)
	s.PeriodEnd = now().AddDate(1, 0, 0)
	return s
}

// sellerService is a service that handles the events of a seller.
func (w Fixture) sellerService(s *seller) *billing.Service {
	return &billing.Service{Store: w.Processes[0], Payments: s, Agents: w.Agents, Now: now}
}

// handle handles events about subscriptions, one after the other.
func (w Fixture) handle(ctx context.Context, t *testing.T, s *seller, ids ...string) {
	t.Helper()
	for _, id := range ids {
		e := billing.Event{ID: "evt_" + agenttest.ID(), SubscriptionID: id}
		if err := w.sellerService(s).HandleEvent(ctx, e); err != nil {
			t.Fatalf("billingtest: event about %s: %v", id, err)
		}
	}
}

func (w Fixture) sellerEnforcer(s *seller) *clockedEnforcer {
	e := &clockedEnforcer{fixture: w, provider: &s.fakeProvider, time: now()}
	e.Enforcer = &billing.Enforcer{
		Store: w.Processes[1], Payments: s, Agents: w.Agents, Now: func() time.Time { return e.time },
	}
	return e
}

func (e *clockedEnforcer) runAfter(t *testing.T, after time.Duration) {
	t.Helper()
	e.time = e.time.Add(after)
	if err := e.Run(t.Context()); err != nil {
		t.Fatalf("billingtest: run the enforcer: %v", err)
	}
}

// olderOfTwo ends the newer of two paid subscriptions: with an event, and with one that is lost.
func olderOfTwo(t *testing.T, w Fixture) {
	s := &seller{}
	for n, lost := range []bool{false, true} {
		id, ctx := w.tenant(t)
		older, newer := fmt.Sprint("sub_a", n), fmt.Sprint("sub_b", n)
		s.sell(id, bought(older, plan.Starter, time.Hour), bought(newer, plan.Pro, time.Minute))
		w.handle(ctx, t, s, older, newer)
		w.wantPlan(t, id, plan.Pro)
		s.setStatus(newer, billing.Canceled)
		if lost {
			w.sellerEnforcer(s).runAfter(t, 25*time.Hour)
		} else {
			w.handle(ctx, t, s, newer)
		}
		w.wantPlan(t, id, plan.Starter)
		s.setStatus(older, billing.Canceled)
		w.handle(ctx, t, s, older)
		w.wantPlan(t, id, plan.Hobby)
	}
}

// paidBeforeOpen: the later subscription has an open payment, and the earlier one is paid.
func paidBeforeOpen(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{}
	s.sell(id, bought("sub_a", plan.Pro, time.Hour), bought("sub_b", plan.Pro, time.Minute))
	s.setStatus("sub_b", billing.PastDue)
	w.handle(ctx, t, s, "sub_a", "sub_b")
	if a := w.account(t, id); a.Subscription.ID != "sub_a" || a.Subscription.Status != billing.Active {
		t.Errorf("billingtest: the account follows %s (%s), want sub_a (active)", a.Subscription.ID,
			a.Subscription.Status)
	}
}

// sameSecond handles the events of two subscriptions, which were bought in one second, in both orders.
func sameSecond(t *testing.T, w Fixture) {
	for _, order := range [][]string{{"sub_a", "sub_b"}, {"sub_b", "sub_a"}} {
		id, ctx := w.tenant(t)
		a, b := bought("sub_a", plan.Pro, time.Hour), bought("sub_b", plan.Starter, time.Hour)
		a.CustomerID, b.CustomerID = "cus_a", "cus_b" // neither is listed with the other
		b.StartedAt = a.StartedAt
		s := &seller{}
		s.sell(id, a, b)
		w.handle(ctx, t, s, order...)
		w.wantPlan(t, id, plan.Starter)
	}
}

// eventOfTheOlder handles an event about a former subscription after one about the present subscription was lost.
func eventOfTheOlder(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	former, present := bought("sub_a", plan.Pro, time.Hour), bought("sub_b", plan.Pro, time.Minute)
	former.Status = billing.Canceled
	s := &seller{}
	s.sell(id, former, present)
	w.handle(ctx, t, s, "sub_b")
	s.setStatus("sub_b", billing.PastDue)
	w.handle(ctx, t, s, "sub_a")
	if a := w.account(t, id); a.Subscription.ID != "sub_b" || a.Subscription.Status != billing.PastDue {
		t.Errorf("billingtest: fetched, but follows %s (%s), want sub_b (past_due)", a.Subscription.ID,
			a.Subscription.Status)
	}
}

// eventAfterAnUnknown handles an event of a new subscription when the provider has forgotten the account's.
func eventAfterAnUnknown(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{}
	s.sell(id, bought("sub_a", plan.Starter, time.Hour))
	w.handle(ctx, t, s, "sub_a")
	delete(s.sold, "sub_a")
	s.sell(id, bought("sub_b", plan.Pro, time.Minute))
	w.handle(ctx, t, s, "sub_b")
	if a := w.account(t, id); a.Subscription.ID != "sub_b" || a.Plan != plan.Pro {
		t.Errorf("billingtest: follows %s on the plan %s, want sub_b on pro", a.Subscription.ID, a.Plan)
	}
}

// lostFirstEvent loses the events of an organization that went to a checkout: its first one, and one after it had left.
func lostFirstEvent(t *testing.T, w Fixture) {
	s := &seller{}
	e := w.sellerEnforcer(s)
	for name, row := range map[string]struct {
		former, granted bool
		after           time.Duration
	}{
		"first": {after: 2 * time.Hour}, "late": {after: 26 * time.Hour},
		"former": {former: true, after: 2 * time.Hour}, "granted": {granted: true, after: 2 * time.Hour},
		"late after a grant": {granted: true, after: 26 * time.Hour},
	} {
		id, ctx := w.tenant(t)
		if row.granted {
			granted, _ := plan.Get(plan.Starter)
			if err := w.sellerService(s).SetPlan(ctx, id, granted, false); err != nil {
				t.Fatal(err)
			}
			e.runAfter(t, 0)
		}
		if row.former {
			former := bought("sub_former", plan.Pro, 40*24*time.Hour)
			former.Status = billing.Canceled
			s.sell(id, former)
			w.handle(ctx, t, s, former.ID)
			e.runAfter(t, 0)
		}
		if err := billing.RememberCustomer(t.Context(), w.Processes[0], id, "cus_1", e.time); err != nil {
			t.Fatal(err)
		}
		e.runAfter(t, time.Minute)
		if row.after > 24*time.Hour {
			e.runAfter(t, 2*time.Hour) // nothing was paid yet
		}
		s.sell(id, bought("sub_"+name, plan.Pro, 0))
		e.runAfter(t, row.after)
		if got := w.account(t, id).Plan; got != plan.Pro {
			t.Errorf("billingtest: %s: the plan is %s, want %s without an event", name, got, plan.Pro)
		}
	}
}

// checkoutsEnd closes the other pages of an organization that has paid, and no pages at later events.
func checkoutsEnd(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{}
	s.sell(id, bought("sub_1", plan.Pro, 0))
	w.handle(ctx, t, s, "sub_1", "sub_1")
	if want := []string{"cus_1"}; !slices.Equal(s.ended, want) {
		t.Errorf("billingtest: the pages of %v were closed, want of %v once", s.ended, want)
	}
}

// checkoutsStay buys a plan while no page can be closed. The enforcer closes them later.
func checkoutsStay(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{stuck: true}
	s.sell(id, bought("sub_1", plan.Pro, 0))
	w.handle(ctx, t, s, "sub_1")
	w.wantPlan(t, id, plan.Pro)
	e := w.sellerEnforcer(s)
	e.runAfter(t, 0)
	s.stuck = false
	e.runAfter(t, 2*time.Hour)
	e.runAfter(t, 26*time.Hour)
	if want := []string{"cus_1"}; !slices.Equal(s.ended, want) {
		t.Errorf("billingtest: the pages of %v were closed, want of %v once", s.ended, want)
	}
}

// suspensionEndsCheckouts suspends an organization that has a page to pay on.
func suspensionEndsCheckouts(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{}
	if err := billing.RememberCustomer(ctx, w.Processes[0], id, "cus_1", now()); err != nil {
		t.Fatal(err)
	}
	e := w.sellerEnforcer(s)
	e.runAfter(t, 2*time.Hour)
	if len(s.ended) > 0 {
		t.Errorf("billingtest: the pages of %v were closed, want none yet", s.ended)
	}
	if err := w.sellerService(s).Suspend(ctx, id, true); err != nil {
		t.Fatal(err)
	}
	e.runAfter(t, time.Minute)
	if want := []string{"cus_1"}; !slices.Equal(s.ended, want) {
		t.Errorf("billingtest: the pages of %v were closed, want of %v", s.ended, want)
	}
}

// grantEndsCheckouts grants a plan to organizations that have a page to pay on: while pages can be closed, and while
// none can at first. A page that is opened later stays.
func grantEndsCheckouts(t *testing.T, w Fixture) {
	granted, err := plan.Get(plan.Pro)
	if err != nil {
		t.Fatal(err)
	}
	for _, stuck := range []bool{false, true} {
		id, ctx := w.tenant(t)
		s := &seller{stuck: stuck}
		if err := billing.RememberCustomer(ctx, w.Processes[0], id, "cus_1", now()); err != nil {
			t.Fatal(err)
		}
		if err := w.sellerService(s).SetPlan(ctx, id, granted, false); err != nil {
			t.Fatal(err)
		}
		e := w.sellerEnforcer(s)
		e.runAfter(t, time.Minute)
		s.stuck = false
		e.runAfter(t, 6*time.Minute)
		if err := billing.RememberCustomer(ctx, w.Processes[0], id, "cus_1", e.time); err != nil {
			t.Fatal(err)
		}
		e.runAfter(t, 2*time.Hour)
		if want := []string{"cus_1"}; !slices.Equal(s.ended, want) {
			t.Errorf("billingtest: the pages of %v were closed after a grant, want of %v once; stuck at first: %t",
				s.ended, want, stuck)
		}
		if err := w.Processes[0].Postpone(ctx, w.account(t, id), time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
}

// unreadKeepsThePlan ends the subscription of an organization that pays for another one, which cannot be understood:
// its plan is one of a later release.
func unreadKeepsThePlan(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	s := &seller{incomplete: true}
	s.sell(id, bought("sub_1", plan.Pro, time.Hour))
	w.handle(ctx, t, s, "sub_1")
	s.setStatus("sub_1", billing.Canceled)
	e := billing.Event{ID: "evt_" + agenttest.ID(), SubscriptionID: "sub_1"}
	if err := w.sellerService(s).HandleEvent(ctx, e); err == nil {
		t.Error("billingtest: an event was handled without a subscription that cannot be understood, want an error")
	}
	w.wantPlan(t, id, plan.Pro)
	s.incomplete = false
	w.handle(ctx, t, s, "sub_1")
	w.wantPlan(t, id, plan.Hobby)
}

// brokenAgents are agents none of which can be changed.
type brokenAgents struct{ agent.Store }

// Change implements agent.Store.
func (brokenAgents) Change(context.Context, string, func(*agent.Agent) error) (agent.Agent, error) {
	return agent.Agent{}, fault.New(fault.Internal, "internal_error", "The record is broken.")
}

// failedAccountsWait enforces an account whose agent cannot be changed: it makes room for others in the next runs, and
// is tried again.
func failedAccountsWait(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	g, err := w.Agents.Create(ctx, agenttest.Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	s := &seller{}
	if err := w.sellerService(s).Suspend(ctx, id, true); err != nil {
		t.Fatal(err)
	}
	e := w.sellerEnforcer(s)
	e.Agents = brokenAgents{w.Agents}
	if err := e.Run(t.Context()); err == nil {
		t.Error("billingtest: a run that failed to pause an agent succeeded, want an error")
	}
	if due := w.account(t, id).DueAt; !due.After(e.time) {
		t.Errorf("billingtest: an account that failed is due at %s, want later than %s", due, e.time)
	}
	e.Agents = w.Agents
	e.runAfter(t, 6*time.Minute)
	if got, err := w.Agents.Get(ctx, g.ID); err != nil || got.Status != agent.Paused {
		t.Errorf("billingtest: the agent is %s, %v at the next check; want paused", got.Status, err)
	}
}

// payingAgents are agents whose organization pays right before one of them is changed.
type payingAgents struct {
	agent.Store
	once sync.Once
	pay  func()
	// late pays when the change has read the records.
	late bool
}

// Change implements agent.Store.
func (p *payingAgents) Change(ctx context.Context, id string, apply func(*agent.Agent) error) (agent.Agent, error) {
	if !p.late {
		p.once.Do(p.pay)
	}
	return p.Store.Change(ctx, id, func(a *agent.Agent) error {
		err := apply(a)
		p.once.Do(p.pay) // after the decision and before the commit
		return err
	})
}

// paidWhileEnforcing pays after a run has decided to pause the agents of an organization whose grace period is over.
func paidWhileEnforcing(t *testing.T, w Fixture) {
	s := &seller{}
	for n, late := range []bool{false, true} {
		id, ctx := w.tenant(t)
		paid := fmt.Sprint("sub_", n)
		s.sell(id, bought(paid, plan.Pro, time.Hour))
		w.handle(ctx, t, s, paid)
		var ids []string
		for range 2 {
			a, err := w.Agents.Create(ctx, agenttest.Draft(plan.Hobby))
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, a.ID)
		}
		s.setStatus(paid, billing.PastDue)
		w.handle(ctx, t, s, paid)
		e := w.sellerEnforcer(s)
		e.Agents = &payingAgents{Store: w.Agents, late: late, pay: func() {
			s.setStatus(paid, billing.Active)
			w.handle(ctx, t, s, paid)
		}}
		e.runAfter(t, billing.Grace+time.Hour)
		for _, agentID := range ids {
			if a, err := w.Agents.Get(ctx, agentID); err != nil || a.Status == agent.Paused {
				t.Errorf("billingtest: an agent is %s (%v) after its organization has paid, late %t", a.Status, err,
					late)
			}
		}
	}
}
