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
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// provider is a payment provider with one subscription, whose state a test sets.
type provider struct {
	billing.NoProvider

	mu    sync.Mutex
	state billing.State
	err   error
	// asked is called with every question, before it is answered and without the lock.
	asked func(n int)
	n     int
}

// Provider implements billing.Payments.
func (*provider) Provider() billing.Provider { return billing.Stripe }

// Fetch implements billing.Payments.
func (p *provider) Fetch(context.Context, string) (billing.State, error) {
	p.mu.Lock()
	p.n++
	n, state, err := p.n, p.state, p.err
	p.mu.Unlock()
	if p.asked != nil {
		p.asked(n) // the answer is what it was before
	}
	return state, err
}

func (p *provider) set(s billing.State, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state, p.err = s, err
}

// TestDesk holds the desk and the keeper to their promises, over a store.
func TestDesk(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"an answer that is late":         lateAnswer,
		"events that are not for us":     foreign,
		"events that can't be looked at": failing,
		"the operator sets a plan":       setPlan,
		"the keeper":                     keeper,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func (w World) desk(p *provider) *billing.Service {
	return &billing.Service{Store: w.Processes[0], Payments: p, Agents: w.Agents, Now: now}
}

func event(id string) billing.Event { return billing.Event{ID: id, SubscriptionID: "sub_1"} }

// lateAnswer: the answer to the first event's question is overtaken by a second event, whole. It must not put back what
// that brought.
func lateAnswer(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	p := &provider{state: billing.State{OrganizationID: id, Subscription: paid(plan.Starter)}}
	d := w.desk(p)
	p.asked = func(n int) {
		if n != 2 { // the first tells only whose it is
			return
		}
		p.set(billing.State{OrganizationID: id, Subscription: paid(plan.Pro)}, nil)
		if err := d.HandleEvent(ctx, event("evt_2")); err != nil {
			t.Error(err)
		}
	}
	if err := d.HandleEvent(ctx, event("evt_1")); err != nil {
		t.Fatal(err)
	}
	if a := w.account(t, id); a.Plan != plan.Pro || p.n != 5 {
		t.Errorf("plan %s after %d questions, want pro after 5", a.Plan, p.n)
	}
	if err := d.HandleEvent(ctx, event("evt_1")); err != nil || p.n != 5 {
		t.Errorf("an event that comes twice: %v, %d questions", err, p.n)
	}
}

func foreign(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	p := &provider{}
	for name, s := range map[string]billing.State{
		"another product's":          {},
		"an unknown organization's":  {OrganizationID: "org_nowhere", Subscription: paid(plan.Pro)},
		"an organization's bad name": {OrganizationID: "a/b", Subscription: paid(plan.Pro)},
	} {
		p.set(s, nil)
		if err := w.desk(p).HandleEvent(ctx, event("evt_"+strings.ReplaceAll(name, " ", "_"))); err != nil {
			t.Errorf("%s: %v, want nothing", name, err)
		}
	}
	p.set(billing.State{}, fault.New(fault.NotFound, "not_found", "Gone."))
	if err := w.desk(p).HandleEvent(ctx, event("evt_gone")); err != nil {
		t.Errorf("a subscription that is gone: %v, want nothing", err)
	}
	asked := p.n
	if err := w.desk(p).HandleEvent(ctx, billing.Event{ID: "evt_other"}); err != nil || p.n != asked {
		t.Errorf("an event about nothing of ours: %v, %d questions", err, p.n-asked)
	}
	if a := w.account(t, id); a.Plan != plan.Hobby {
		t.Errorf("the plan became %s", a.Plan)
	}
}

func failing(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	p := &provider{err: fault.New(fault.Unavailable, "payment_provider_unavailable", "Down.")}
	if err := w.desk(p).HandleEvent(ctx, event("evt_1")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while the provider is down: %v, want unavailable, so that it sends again", err)
	}
	p.set(billing.State{OrganizationID: id, Subscription: paid(plan.Pro)}, nil)
	if err := w.desk(p).HandleEvent(ctx, event("evt_1")); err != nil || w.account(t, id).Plan != plan.Pro {
		t.Errorf("afterwards: %v, plan %s", err, w.account(t, id).Plan)
	}
}

// operator is the context of the operator's act on an organization.
func operator(ctx context.Context, id string) context.Context {
	ctx = identity.With(ctx, identity.Caller{Type: identity.Operator, ID: "ops", OrganizationID: id,
		Role: identity.RoleAdmin})
	return audit.With(ctx, audit.Request{Action: "SetPlan", RequestID: "request_1"})
}

func setPlan(t *testing.T, w World) {
	id, _ := w.tenant(t)
	ctx, d := operator(t.Context(), id), w.desk(&provider{})
	set := func(to plan.ID, force bool) error {
		p, err := plan.Get(to)
		if err != nil {
			t.Fatal(err)
		}
		return d.SetPlan(ctx, id, p, force)
	}
	if err := set(plan.Enterprise, false); err != nil {
		t.Fatal(err)
	}
	if a := w.account(t, id); a.Plan != plan.Enterprise || a.Subscription.Provider != billing.Manual ||
		a.Subscription.Status != billing.Active {
		t.Errorf("the account is %+v", a)
	}
	if _, err := w.Agents.Create(ctx, agenttest.Draft(plan.Pro)); err != nil {
		t.Fatal(err)
	}
	if err := set(plan.Starter, false); fault.Code(err) != "usage_over_plan" ||
		w.account(t, id).Plan != plan.Enterprise {
		t.Errorf("a plan without room: %v, plan %s", err, w.account(t, id).Plan)
	}
	if err := set(plan.Starter, true); err != nil || w.account(t, id).Plan != plan.Starter ||
		w.account(t, id).DueAt.IsZero() {
		t.Errorf("a plan without room, forced: %v, %+v", err, w.account(t, id))
	}
	entries, err := w.Entries(ctx, id)
	if err != nil || !slices.ContainsFunc(entries, func(e audit.Entry) bool {
		return e.Action == "SetPlan" && e.Actor.Type == identity.Operator &&
			slices.Contains(e.Changes, audit.Change{Field: "plan", Old: "enterprise", New: "starter"})
	}) {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
	bought := w.account(t, id)
	bought.ApplySubscription(paid(plan.Pro), now())
	if err := w.Processes[0].Save(ctx, bought, ""); err != nil {
		t.Fatal(err)
	}
	if err := set(plan.Enterprise, true); fault.Code(err) != "subscription_exists" {
		t.Errorf("over a subscription that is paid: %v", err)
	}
	if err := d.SetPlan(ctx, "org_nowhere", plan.Plan{ID: plan.Pro}, false); !fault.Is(err, fault.NotFound) {
		t.Errorf("of an unknown organization: %v", err)
	}
}

// keeper: what is due is carried out, with entries of the control plane's own, and looked at again when there is a
// reason to.
func keeper(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	d := w.desk(&provider{})
	if err := d.SetPlan(operator(t.Context(), id), id, plan.All()[2], false); err != nil {
		t.Fatal(err)
	}
	g, err := w.Agents.Create(ctx, agenttest.Draft(plan.Hobby))
	if err != nil {
		t.Fatal(err)
	}
	run := func(a *agent.Agent) error { a.BecameReady(now()); return nil }
	if _, err := w.Agents.Change(ctx, g.ID, run); err != nil {
		t.Fatal(err)
	}
	k := &billing.Enforcer{Store: w.Processes[1], Agents: w.Agents, Now: now}
	keep := func(status agent.Status, reason agent.StatusReason, due bool) {
		t.Helper()
		if err := k.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := w.Agents.Get(ctx, g.ID)
		if err != nil || got.Status != status || got.StatusReason != reason {
			t.Errorf("the agent is %s (%s), %v; want %s (%s)", got.Status, got.StatusReason, err, status, reason)
		}
		if a := w.account(t, id); a.DueAt.IsZero() == due || due && !a.DueAt.After(now()) {
			t.Errorf("the account is due at %s", a.DueAt)
		}
	}
	keep(agent.Running, "", false)
	if err := d.Suspend(operator(t.Context(), id), id, true); err != nil {
		t.Fatal(err)
	}
	keep(agent.Paused, agent.Billing, true)
	if a := w.account(t, id); a.Status != organization.Suspended {
		t.Errorf("the organization is %s", a.Status)
	}
	if err := d.Suspend(operator(t.Context(), id), id, false); err != nil {
		t.Fatal(err)
	}
	keep(agent.Provisioning, "", false)
	entries, err := w.Entries(ctx, id)
	if err != nil || !slices.ContainsFunc(entries, func(e audit.Entry) bool {
		return e.Action == "PauseAgent" && e.Actor.Type == identity.System && e.Actor.ID == "billing" &&
			e.Target.ID == g.ID
	}) {
		t.Errorf("the audit log has %+v, %v", entries, err)
	}
}
