package simulationtest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	apicall "agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// payment is what happens to the payments of the organization.
type payment string

const (
	fails     payment = "fails"
	succeeds  payment = "succeeds"
	cancel    payment = "cancel"
	downgrade payment = "downgrade"
	upgrade   payment = "upgrade"
	unknown   payment = "unknown plan"
	suspend   payment = "suspend"
	unsuspend payment = "unsuspend"
	// buyAgain buys another subscription, on a page that was opened before; endAgain ends it.
	buyAgain payment = "buy again"
	endAgain payment = "end again"
)

// paymentScripts are what may happen to an organization that pays.
func paymentScripts() [][]payment {
	return [][]payment{
		{fails},
		{fails, succeeds},
		{cancel},
		{downgrade},
		{downgrade, upgrade},
		{suspend},
		{suspend, unsuspend},
		{fails, cancel},
		{unknown},
		{buyAgain, endAgain},
		{buyAgain, cancel},
		{fails, buyAgain},
		{cancel, buyAgain, endAgain},
	}
}

// paymentEvent is an event of the provider that is not delivered yet.
type paymentEvent struct {
	id           string
	subscription string
	delivered    bool
	notBefore    time.Duration
}

// unknownPlan is a plan of a later release.
const unknownPlan plan.ID = "later"

// graceLeft is how long the grace period of an organization that did not pay still is.
const graceLeft = 20 * time.Second

// subscribe makes the organization pay for its plan, or have stopped to pay for it nearly a grace period ago.
func (w *World) subscribe() {
	if len(w.setup.Payments) == 0 && !w.setup.Unpaid {
		return
	}
	now := w.Now().UTC()
	s := billing.Subscription{
		Provider: billing.Stripe, ID: "subscription", CustomerID: "customer", Status: billing.Active, Plan: plan.Pro,
		Interval:  billing.Month,
		StartedAt: now.AddDate(0, 0, -10), PeriodStart: now.AddDate(0, 0, -10), PeriodEnd: now.AddDate(1, 0, 0),
	}
	o := w.Database.organizations[organizationID]
	w.Database.Commits++
	o.version = w.Database.Commits
	o.account.DueAt, o.account.FetchedAt = now.Add(24*time.Hour), now
	if w.setup.Unpaid {
		s.Status, o.Status = billing.PastDue, organization.PastDue
		o.account.DueAt = now.Add(graceLeft)
	}
	w.subscriptions = []*billing.Subscription{&s}
	o.account.Subscription = s
	if w.setup.Unpaid {
		o.account.Subscription.PastDueSince = now.Add(graceLeft - billing.Grace)
	}
	w.Database.organizations[organizationID] = o
}

// paymentActions lists what can happen to the organization's payments.
func (w *World) paymentActions(actions []Action) []Action {
	if len(w.subscriptions) == 0 {
		return actions
	}
	for _, e := range w.events {
		if !e.delivered && e.notBefore <= w.Elapsed() {
			actions = append(actions, Action{"event", e.id, func() { w.handleEvent(e) }})
		}
	}
	if u := &w.setup; !w.quiet && len(u.Payments) > 0 && w.Chance(0.1) {
		actions = append(actions, Action{"payment", string(u.Payments[0]), func() {
			next := u.Payments[0]
			u.Payments = u.Payments[1:]
			w.pay(next)
		}})
	}
	if !w.quiet && w.setup.BillingTicks > 0 && w.Chance(0.1) {
		actions = append(actions, Action{"tick", "billing", func() { w.setup.BillingTicks--; w.enforce() }})
	}
	return actions
}

// pay makes something happen to the organization's payments.
func (w *World) pay(p payment) {
	s := w.subscriptions[0]
	switch p {
	case buyAgain:
		s = &billing.Subscription{
			Provider: billing.Stripe, ID: "another subscription", CustomerID: s.CustomerID, Status: billing.Active,
			Plan: plan.Pro, Interval: billing.Month, StartedAt: w.Now().UTC(),
			PeriodEnd: w.Now().UTC().AddDate(1, 0, 0),
		}
		w.subscriptions = append(w.subscriptions, s)
	case endAgain:
		s = w.subscriptions[1]
		s.Status = billing.Canceled
	case fails:
		s.Status = billing.PastDue
	case succeeds:
		s.Status = billing.Active
	case cancel:
		s.Status = billing.Canceled
	case downgrade:
		s.Plan = []plan.ID{plan.Hobby, plan.Starter}[w.Choose(2)]
	case upgrade:
		s.Plan = plan.Pro
	case unknown:
		s.Plan = unknownPlan
	case suspend, unsuspend:
		w.start("operator", func(ctx context.Context, p2 *Process) error {
			ctx = apicall.With(ctx, &apicall.Call{
				Caller: identity.Caller{
					Type: identity.System, ID: "operator", OrganizationID: organizationID, Role: identity.RoleAdmin,
				},
				Request: audit.Request{Action: "Suspend", RequestID: "operator"},
			})
			return w.billing(p2).Suspend(ctx, organizationID, p == suspend)
		})
		return
	}
	if lost := w.setup.LostEvents > 0 && w.Chance(0.5); lost {
		w.setup.LostEvents--
		return
	}
	w.sent++
	e := paymentEvent{id: "event " + strconv.Itoa(w.sent), subscription: s.ID}
	for range 1 + w.Choose(2) { // the provider may send an event twice, and later than another one
		sent := e
		sent.notBefore = w.Elapsed() + time.Duration(w.Choose(2))*time.Minute
		w.events = append(w.events, &sent)
	}
}

func (w *World) accounts(p *Process) billing.Store {
	var s billing.Store = Accounts{Database: w.Database, Process: p}
	if w.Plant.Accounts != nil {
		s = w.Plant.Accounts(w, s)
	}
	return s
}

func (w *World) payments(p *Process) billing.Payments {
	var c billing.Payments = PaymentClient{World: w, Process: p}
	if w.Plant.Payments != nil {
		c = w.Plant.Payments(c)
	}
	return c
}

func (w *World) billing(p *Process) *billing.Service {
	return &billing.Service{Store: w.accounts(p), Payments: w.payments(p), Agents: w.agents("api", p), Now: p.Now}
}

// handleEvent starts the process of an event. The provider sends it again until it is acknowledged.
func (w *World) handleEvent(e *paymentEvent) {
	e.delivered = true
	w.start("webhook", func(ctx context.Context, p *Process) error {
		err := w.billing(p).HandleEvent(ctx, billing.Event{ID: e.id, SubscriptionID: e.subscription})
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.delivered, e.notBefore = false, w.Elapsed()+time.Minute; err == nil && !p.crashed {
			w.events = slices.DeleteFunc(w.events, func(other *paymentEvent) bool { return other == e })
		}
		return err
	})
}

// enforce starts the enforcement of accounts.
func (w *World) enforce() {
	w.start("billing", func(ctx context.Context, p *Process) error {
		return (&billing.Enforcer{
			Store: w.accounts(p), Payments: w.payments(p), Agents: w.agents("api", p), Now: p.Now,
		}).Run(ctx)
	})
}

// enforcements are the waits between the enforcements at the end of a schedule: until a lost event is fetched, until a
// grace period is over, and until agents that fit are looked for again.
func enforcements() []time.Duration {
	return []time.Duration{25 * time.Hour, billing.Grace + 2*time.Hour, 10 * time.Minute, 10 * time.Minute}
}

// enforceLater makes time pass and starts the enforcement of accounts, as often as it may have something to do.
func (w *World) enforceLater() bool {
	waits := enforcements()
	if len(w.subscriptions) == 0 || w.enforced == len(waits) {
		return false
	}
	w.Pass(waits[w.enforced])
	w.enforced++
	w.quietSince = w.Elapsed()
	w.enforce()
	return true
}

// checkBillingAtRest checks that the agents that billing paused are those that their organization does not pay for.
func (w *World) checkBillingAtRest() {
	if len(w.subscriptions) == 0 {
		return
	}
	account, paid := w.Database.organizations[organizationID].read(), w.paidFor()
	if account.Subscription.Status != paid.Status || paid.Live() && account.Plan != paid.Plan {
		w.violate("billing", "the provider has the subscription %+v, and the account %+v", paid, account.Subscription)
	}
	if account.Suspended || paid.Status == billing.PastDue {
		for _, a := range w.Database.Agents() {
			if n := w.Cluster.namespaces[a.ID]; a.WantsPod() || n != nil && n.pod != nil {
				w.violate("billing", "agent %s is %s, and its organization may run none", short(a.ID), a.Status)
			}
		}
		return
	}
	on := organization.Organization{Plan: paid.Plan}
	if !paid.Live() {
		on.Plan = plan.Hobby
	}
	w.checkFit(on)
}

// paidFor returns the subscription that the organization has by the provider: the latest of those that are paid, or of
// those with an open payment, or of all.
func (w *World) paidFor() billing.Subscription {
	var found billing.Subscription
	for _, accepted := range [][]billing.Status{
		{billing.Canceled}, {billing.PastDue}, {billing.Active},
	} {
		for _, s := range w.subscriptions {
			if slices.Contains(accepted, s.Status) {
				found = *s
			}
		}
	}
	return found
}

// checkPause checks a commit that pauses an agent for billing: an organization that has paid by then keeps its agents.
func (w *World) checkPause(o organizationDocument, before, after agent.Agent) {
	if after.StatusReason != agent.Billing || before.StatusReason == agent.Billing {
		return
	}
	a := o.read()
	if s := a.Subscription; s.Status == billing.Active && s.Plan == plan.Pro && !a.Suspended {
		w.violate("billing", "agent %s is paused for billing after its organization has paid", short(after.ID))
	}
}

// checkFit checks that the agents that run fit a plan, and that no other one would fit that billing paused.
func (w *World) checkFit(on organization.Organization) {
	limits, err := on.Limits()
	var used organization.Usage
	for _, a := range w.Database.Agents() {
		if a.WantsPod() {
			used = used.Plus(a.HeldUsage())
		}
	}
	if err == nil && len(used.Excesses(limits)) > 0 {
		w.violate("billing", "agents run beyond the limits of the plan %s", on.Plan)
	}
	for _, a := range w.Database.Agents() {
		size, _ := plan.Get(a.Plan)
		fits := err != nil || on.CheckFits(size) == nil
		paused := a.Status == agent.Paused && a.StatusReason == agent.Billing
		resumed := a
		resumed.Status = agent.Running
		switch {
		case a.WantsPod() && !fits:
			w.violate("billing", "agent %s runs, and is too large for the plan %s", short(a.ID), on.Plan)
		case paused && err != nil:
			w.violate("billing", "billing paused agent %s because of a plan that it does not know", short(a.ID))
		case paused && fits && len(used.Plus(resumed.HeldUsage()).Excesses(limits)) == 0:
			w.violate("billing", "billing paused agent %s, which fits the plan %s", short(a.ID), on.Plan)
		}
	}
}

// arrangePayments lets an organization's payments stop and resume.
func arrangePayments(s *Scheduler, u *Setup) {
	u.BillingTicks, u.LostEvents = 3, s.Choose(2)
	if u.Unpaid = s.Choose(2) == 0; u.Unpaid {
		u.Payments = [][]payment{nil, {succeeds}, {succeeds, fails}, {cancel}}[s.Choose(4)]
	} else {
		u.Payments = slices.Clone(paymentScripts()[s.Choose(len(paymentScripts()))])
	}
	if s.Choose(3) == 0 {
		u.Trouble, u.TroubleTime, u.OutageTime = neverReady, 30*time.Hour, 0
	}
}
