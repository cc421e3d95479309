package billingtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// concurrentEventsAndCreations applies two events and creates two agents concurrently. No change may be lost, and a
// recount must agree with the recorded usage.
func concurrentEventsAndCreations(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	prepared := w.account(t, id)
	prepared.ApplySubscription(paidSubscription(plan.Starter), now())
	w.save(ctx, t, prepared, "")
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range 2 {
		all.Go(func() { _, errs[i] = w.Agents.Create(ctx, agenttest.Draft(plan.Starter)) })
		all.Go(func() {
			for {
				a, err := w.Processes[i].Account(ctx, id)
				if err == nil {
					a.ApplySubscription(paidSubscription(plan.Pro), now())
					err = w.Processes[i].Save(ctx, a, []string{"evt_1", "evt_2"}[i])
				}
				if errs[2+i] = err; !errors.Is(err, billing.ErrChanged) {
					return
				}
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("billingtest: concurrent creations and events: %v", err)
	}
	w.wantPlan(t, id, plan.Pro)
	if got := w.account(t, id).Usage; got.Agents != 2 || got.CPUMillis != 2000 {
		t.Errorf("billingtest: usage = %+v, want 2 agents and 2000 CPU millicores", got)
	}
	if drift, found, err := w.Counts.Recount(ctx, id); found || err != nil {
		t.Errorf("billingtest: recount found drift %t: %+v, %v; want none", found, drift, err)
	}
}

// act is a client's action on an agent.
func (w Fixture) act(ctx context.Context, agentID string, trigger agent.Trigger) error {
	_, err := w.Agents.Change(ctx, agentID, func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, now()) })
	return err
}

// startNeedsPayment checks that an organization that owes payment can't create or start agents, but can do all else.
func startNeedsPayment(t *testing.T, w Fixture) {
	id, system := w.tenant(t)
	admin := call.As(system,
		identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin})
	key := call.As(system,
		identity.Caller{Type: identity.APIKey, ID: "key_1", OrganizationID: id, Role: identity.RoleAdmin})
	setAccount := func(status billing.Status, on plan.ID, suspended bool) {
		t.Helper()
		a := w.account(t, id)
		s := paidSubscription(on)
		s.Status = status
		a.ApplySubscription(s, now())
		a.Suspend(suspended, now())
		w.save(system, t, a, "")
	}
	setAccount(billing.Active, plan.Startup, false)
	var ids []string
	for range 2 {
		a, err := w.Agents.Create(admin, agenttest.Draft(plan.Starter))
		if err != nil {
			t.Fatalf("billingtest: create an agent: %v", err)
		}
		ids = append(ids, a.ID)
	}
	if err := w.act(admin, ids[0], agent.Stop); err != nil {
		t.Fatalf("billingtest: stop an agent: %v", err)
	}
	for _, c := range []struct {
		status    billing.Status
		suspended bool
		wantCode  string
	}{
		{status: billing.PastDue, suspended: false, wantCode: "subscription_past_due"},
		{status: billing.Active, suspended: true, wantCode: "billing_required"},
		{status: billing.Canceled, suspended: false, wantCode: "plan_capacity_exceeded"},
	} {
		setAccount(c.status, plan.Startup, c.suspended)
		_, createErr := w.Agents.Create(admin, agenttest.Draft(plan.Hobby))
		_, createByKeyErr := w.Agents.Create(key, agenttest.Draft(plan.Hobby))
		for call, err := range map[string]error{
			"create": createErr, "create by API key": createByKeyErr,
			"start": w.act(admin, ids[0], agent.Start), "start by API key": w.act(key, ids[0], agent.Start),
		} {
			if !fault.Is(err, fault.PaymentRequired) || fault.Code(err) != c.wantCode {
				t.Errorf("billingtest: %s while %s (suspended %t): %v, want %s", call, c.status, c.suspended, err,
					c.wantCode)
			}
		}
		if _, err := w.Agents.Get(admin, ids[0]); err != nil {
			t.Errorf("billingtest: get while %s (suspended %t): %v", c.status, c.suspended, err)
		}
	}
	if err := errors.Join(w.act(admin, ids[1], agent.Delete), w.act(admin, ids[0], agent.Delete)); err != nil {
		t.Errorf("billingtest: delete agents: %v", err)
	}
	setAccount(billing.Active, plan.Startup, false)
	if _, err := w.Agents.Create(admin, agenttest.Draft(plan.Starter)); err != nil {
		t.Errorf("billingtest: create after payment: %v", err)
	}
}

// suspensionRefusesStart suspends the organization while a start is being decided. None of the starts moves the usage,
// so only the account can refuse them.
func suspensionRefusesStart(t *testing.T, w Fixture) {
	for name, c := range map[string]struct {
		given   agent.Trigger
		trigger agent.Trigger
	}{
		"resume":             {given: agent.Pause, trigger: agent.Resume},
		"restart from error": {trigger: agent.Restart},
		"start from error":   {trigger: agent.Start},
	} {
		id, system := w.tenant(t)
		admin := call.As(system,
			identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin})
		g, err := w.Agents.Create(admin, agenttest.Draft(plan.Hobby))
		if err != nil {
			t.Fatalf("billingtest: create an agent: %v", err)
		}
		_, err = w.Agents.Change(system, g.ID, func(a *agent.Agent) error {
			a.BecameReady(now())
			if c.given == "" {
				a.Break(agent.Failure{Code: "pod_crash_loop"}, now())
				return nil
			}
			return a.Act(c.given, agent.Manual, now())
		})
		if err != nil {
			t.Fatalf("billingtest: prepare an agent: %v", err)
		}
		suspended := false
		_, err = w.Agents.Change(admin, g.ID, func(a *agent.Agent) error {
			if !suspended {
				suspended = true
				account := w.account(t, id)
				account.Suspend(true, now())
				w.save(system, t, account, "")
			}
			return a.Act(c.trigger, agent.Manual, now())
		})
		if !fault.Is(err, fault.PaymentRequired) {
			t.Errorf("billingtest: %s, suspended in between: %v, want PaymentRequired", name, err)
		}
		if got, err := w.Agents.Get(admin, g.ID); err != nil || got.Status.Up() {
			t.Errorf("billingtest: %s, suspended in between: the agent is %s, %v, want it down", name, got.Status, err)
		}
	}
}

// storeWith is a store that does something before the first read of an account.
type storeWith struct {
	billing.Store

	before func()
}

// Account implements billing.Store.
func (s *storeWith) Account(ctx context.Context, id string) (billing.Account, error) {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.Store.Account(ctx, id)
}

// agentWhileSettingPlan creates an agent that is too large for a plan while the operator sets the plan. The amounts of
// the plan have room for it.
func agentWhileSettingPlan(t *testing.T, w Fixture) {
	id, system := w.tenant(t)
	prepared := w.account(t, id)
	prepared.Plan = plan.Enterprise
	w.save(system, t, prepared, "")
	s := w.service(&fakeProvider{})
	s.Store = &storeWith{Store: s.Store, before: func() {
		if _, err := w.Agents.Create(system, agenttest.Draft(plan.Business)); err != nil {
			t.Errorf("billingtest: create an agent: %v", err)
		}
	}}
	to, err := plan.Get(plan.Pro)
	if err != nil {
		t.Fatalf("billingtest: plan pro: %v", err)
	}
	if err := s.SetPlan(asOperator(t.Context(), id), id, to, false); fault.Code(err) != "usage_over_plan" {
		t.Errorf("billingtest: a plan that is too small for an agent: %v, want usage_over_plan", err)
	}
}
