package billingtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// fakeProvider is a payment provider with one subscription, whose state a test sets.
type fakeProvider struct {
	billing.NoProvider

	mu    sync.Mutex
	state billing.State
	err   error
	// fetches counts the calls of Fetch.
	fetches int
	// onFetch is called during each Fetch, after its answer is fixed and before it returns.
	onFetch func(n int)
	// answer, if set, answers in place of state.
	answer func(subscriptionID string) billing.State
}

// Provider implements billing.Payments.
func (*fakeProvider) Provider() billing.Provider { return billing.Stripe }

// Fetch implements billing.Payments.
func (p *fakeProvider) Fetch(_ context.Context, subscriptionID string) (billing.State, error) {
	p.mu.Lock()
	p.fetches++
	n, state, err := p.fetches, p.state, p.err
	p.mu.Unlock()
	if p.onFetch != nil {
		p.onFetch(n)
	}
	if p.answer != nil {
		state = p.answer(subscriptionID)
	}
	return state, err
}

func (p *fakeProvider) set(s billing.State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.err = s, err
}

// TestService tests that a billing.Service and a billing.Enforcer keep their contracts on a store. open makes an empty
// fixture.
func TestService(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"a late answer does not replace newer state":       lateAnswer,
		"events of other products are ignored":             foreignEvents,
		"an event fails while the provider fails":          eventFailsWithProvider,
		"the operator sets a plan":                         operatorSetsPlan,
		"a plan that is set counts agents made in between": agentWhileSettingPlan,
		"the enforcer pauses and resumes suspended agents": enforcerPausesAndResumes,
		"the enforcer makes up for lost events":            lostEvents,
		"the enforcer asks for an overdue period hourly":   overduePeriod,
		"the enforcer works while the provider is down":    providerDown,
		"the enforcer limits its calls of the provider":    fetchRate,

		"the older of two subscriptions counts when the newer ends": olderOfTwo,
		"a paid subscription wins over one with an open payment":    paidBeforeOpen,
		"of two of one second the order of events decides nothing":  sameSecond,
		"an event of a former subscription fetches the present one": eventOfTheOlder,
		"an event after a subscription that is unknown now counts":  eventAfterAnUnknown,
		"a lost first event is made up for":                         lostFirstEvent,
		"a payment closes the other pages":                          checkoutsEnd,
		"a plan does not wait for the other pages":                  checkoutsStay,
		"a suspension closes the pages":                             suspensionEndsCheckouts,
		"a grant closes the pages":                                  grantEndsCheckouts,
		"what cannot be understood keeps the plan":                  unreadKeepsThePlan,
		"an account that fails waits":                               failedAccountsWait,
		"an agent of who has paid is not paused":                    paidWhileEnforcing,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (w Fixture) service(p *fakeProvider) *billing.Service {
	return &billing.Service{Store: w.Processes[0], Payments: p, Agents: w.Agents, Now: now}
}

func event(id string) billing.Event { return billing.Event{ID: id, SubscriptionID: "sub_1"} }

// lateAnswer handles a whole second event while the first event waits for the provider's answer. The first event's
// older answer must not replace the newer state.
func lateAnswer(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	p := &fakeProvider{state: billing.State{OrganizationID: id, Subscription: paidSubscription(plan.Starter)}}
	s := w.service(p)
	p.onFetch = func(n int) {
		if n != 2 { // the first Fetch of an event only finds its organization
			return
		}
		p.set(billing.State{OrganizationID: id, Subscription: paidSubscription(plan.Pro)}, nil)
		if err := s.HandleEvent(ctx, event("evt_2")); err != nil {
			t.Errorf("billingtest: handle the second event: %v", err)
		}
	}
	if err := s.HandleEvent(ctx, event("evt_1")); err != nil {
		t.Fatalf("billingtest: handle the first event: %v", err)
	}
	w.wantPlan(t, id, plan.Pro)
	if p.fetches != 5 {
		t.Errorf("billingtest: %d fetches for two events, want 5: two for each, and one more for the retry", p.fetches)
	}
	if err := s.HandleEvent(ctx, event("evt_1")); err != nil || p.fetches != 5 {
		t.Errorf("billingtest: repeated event: %v after %d fetches in total; want success without a fetch", err,
			p.fetches)
	}
}

func foreignEvents(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	p := &fakeProvider{}
	for name, s := range map[string]billing.State{
		"another product":           {},
		"unknown organization":      {OrganizationID: "org_nowhere", Subscription: paidSubscription(plan.Pro)},
		"invalid organization name": {OrganizationID: "a/b", Subscription: paidSubscription(plan.Pro)},
	} {
		p.set(s, nil)
		if err := w.service(p).HandleEvent(ctx, event("evt_"+strings.ReplaceAll(name, " ", "_"))); err != nil {
			t.Errorf("billingtest: event of %s: %v, want success", name, err)
		}
	}
	p.set(billing.State{}, fault.New(fault.NotFound, "not_found", "Gone."))
	if err := w.service(p).HandleEvent(ctx, event("evt_gone")); err != nil {
		t.Errorf("billingtest: event of a deleted subscription: %v, want success", err)
	}
	before := p.fetches
	if err := w.service(p).HandleEvent(ctx, billing.Event{ID: "evt_other"}); err != nil {
		t.Errorf("billingtest: event without a subscription: %v, want success", err)
	}
	if p.fetches != before {
		t.Errorf("billingtest: %d fetches for an event without a subscription, want none", p.fetches-before)
	}
	w.wantPlan(t, id, plan.Hobby)
}

func eventFailsWithProvider(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	p := &fakeProvider{err: fault.New(fault.Unavailable, "payment_provider_unavailable", "Down.")}
	if err := w.service(p).HandleEvent(ctx, event("evt_1")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("billingtest: event while the provider is down: %v, want unavailable, so that it is sent again", err)
	}
	p.set(billing.State{OrganizationID: id, Subscription: paidSubscription(plan.Pro)}, nil)
	if err := w.service(p).HandleEvent(ctx, event("evt_1")); err != nil {
		t.Errorf("billingtest: event sent again: %v", err)
	}
	w.wantPlan(t, id, plan.Pro)
}

// asOperator is the context of an operator's command on an organization.
func asOperator(ctx context.Context, id string) context.Context {
	ctx = call.As(ctx, identity.Caller{
		Type: identity.Operator, ID: "ops", OrganizationID: id, Role: identity.RoleAdmin,
	})
	return call.WithRequest(ctx, audit.Request{Action: "SetPlan", RequestID: "request_1"})
}

// wantEntry checks that the audit log of an organization has an entry.
func (w Fixture) wantEntry(ctx context.Context, t *testing.T, id, description string, matches func(audit.Entry) bool) {
	t.Helper()
	entries, err := w.Entries(ctx, id)
	if err != nil {
		t.Fatalf("billingtest: read the audit log: %v", err)
	}
	if !slices.ContainsFunc(entries, matches) {
		t.Errorf("billingtest: audit log = %+v, want an entry of %s", entries, description)
	}
}

func operatorSetsPlan(t *testing.T, w Fixture) {
	id, _ := w.tenant(t)
	ctx, s := asOperator(t.Context(), id), w.service(&fakeProvider{})
	setPlan := func(to plan.ID, force bool) error {
		p, err := plan.Get(to)
		if err != nil {
			t.Fatalf("billingtest: plan %s: %v", to, err)
		}
		return s.SetPlan(ctx, id, p, force)
	}
	if err := setPlan(plan.Enterprise, false); err != nil {
		t.Fatalf("billingtest: set the plan: %v", err)
	}
	w.wantPlan(t, id, plan.Enterprise)
	if got := w.account(t, id).Subscription; got.Provider != billing.Manual || got.Status != billing.Active {
		t.Errorf("billingtest: subscription = %+v, want an active manual one", got)
	}
	if _, err := w.Agents.Create(ctx, agenttest.Draft(plan.Pro)); err != nil {
		t.Fatalf("billingtest: create an agent: %v", err)
	}
	if err := setPlan(plan.Starter, false); fault.Code(err) != "usage_over_plan" {
		t.Errorf("billingtest: set a plan that is too small: %v, want usage_over_plan", err)
	}
	w.wantPlan(t, id, plan.Enterprise)
	if err := setPlan(plan.Starter, true); err != nil {
		t.Errorf("billingtest: force a plan that is too small: %v", err)
	}
	w.wantPlan(t, id, plan.Starter)
	if w.account(t, id).DueAt.IsZero() {
		t.Error("billingtest: the account is not due for enforcement after a forced plan")
	}
	w.wantEntry(ctx, t, id, "the operator's SetPlan from enterprise to starter", func(e audit.Entry) bool {
		return e.Action == "SetPlan" && e.Actor.Type == identity.Operator &&
			slices.Contains(e.Changes, audit.Change{Field: "plan", Old: "enterprise", New: "starter"})
	})
	bought := w.account(t, id)
	bought.ApplySubscription(paidSubscription(plan.Pro), now())
	w.save(ctx, t, bought, "")
	if err := setPlan(plan.Enterprise, true); fault.Code(err) != "subscription_exists" {
		t.Errorf("billingtest: set the plan of a paying organization: %v, want subscription_exists", err)
	}
	if err := s.SetPlan(ctx, "org_nowhere", plan.Plan{ID: plan.Pro}, false); !fault.Is(err, fault.NotFound) {
		t.Errorf("billingtest: set the plan of an unknown organization: %v, want not found", err)
	}
}

// enforcerPausesAndResumes suspends an organization and ends the suspension. The enforcer must pause and resume its
// agent as the system, and check the account again only while the suspension lasts.
func enforcerPausesAndResumes(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	operator, s := asOperator(t.Context(), id), w.service(&fakeProvider{})
	if err := s.SetPlan(operator, id, plan.All()[2], false); err != nil {
		t.Fatalf("billingtest: set the plan: %v", err)
	}
	g, err := w.Agents.Create(ctx, agenttest.Draft(plan.Hobby))
	if err != nil {
		t.Fatalf("billingtest: create an agent: %v", err)
	}
	becomeReady := func(a *agent.Agent) error { a.BecameReady(now()); return nil }
	if _, err := w.Agents.Change(ctx, g.ID, becomeReady); err != nil {
		t.Fatalf("billingtest: make the agent ready: %v", err)
	}
	enforcer := &billing.Enforcer{Store: w.Processes[1], Payments: &fakeProvider{}, Agents: w.Agents, Now: now}
	enforce := func(wantStatus agent.Status, wantReason agent.StatusReason, wantDue bool) {
		t.Helper()
		if err := enforcer.Run(t.Context()); err != nil {
			t.Fatalf("billingtest: run the enforcer: %v", err)
		}
		got, err := w.Agents.Get(ctx, g.ID)
		if err != nil || got.Status != wantStatus || got.StatusReason != wantReason {
			t.Errorf("billingtest: the agent is %s (%s), %v; want %s (%s)", got.Status, got.StatusReason, err,
				wantStatus,
				wantReason)
		}
		due := w.account(t, id).DueAt
		if due.IsZero() == wantDue {
			t.Errorf("billingtest: DueAt = %s, want a time: %t", due, wantDue)
		}
		if wantDue && !due.After(now()) {
			t.Errorf("billingtest: DueAt = %s, want a time in the future", due)
		}
	}
	suspend := func(suspended bool) {
		t.Helper()
		if err := s.Suspend(operator, id, suspended); err != nil {
			t.Fatalf("billingtest: set suspended to %t: %v", suspended, err)
		}
	}
	enforce(agent.Running, "", false)
	suspend(true)
	enforce(agent.Paused, agent.Billing, true)
	if got := w.account(t, id).Status; got != organization.Suspended {
		t.Errorf("billingtest: status of the organization = %s, want %s", got, organization.Suspended)
	}
	suspend(false)
	enforce(agent.Provisioning, "", false)
	w.wantEntry(ctx, t, id, "the system's PauseAgent", func(e audit.Entry) bool {
		return e.Action == "PauseAgent" && e.Actor.Type == identity.System && e.Actor.ID == "billing" &&
			e.Target.ID == g.ID
	})
}
