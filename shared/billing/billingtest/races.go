package billingtest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// race: two events and two creations at once. Nothing is lost, and a recount agrees with what the organization is said
// to hold.
func race(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	prepared := w.account(t, id)
	prepared.ApplySubscription(paid(plan.Starter), now())
	if err := w.Processes[0].Save(ctx, prepared, ""); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 4)
	for i := range 2 {
		all.Go(func() { _, errs[i] = w.Agents.Create(ctx, agenttest.Draft(plan.Starter)) })
		all.Go(func() {
			for {
				a, err := w.Processes[i].Account(ctx, id)
				if err == nil {
					a.ApplySubscription(paid(plan.Pro), now())
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
		t.Fatal(err)
	}
	a := w.account(t, id)
	if a.Plan != plan.Pro || a.Usage.Agents != 2 || a.Usage.CPUMillis != 2000 {
		t.Errorf("after the race: plan %s, usage %+v", a.Plan, a.Usage)
	}
	if drift, found, err := w.Counts.Recount(ctx, id); found || err != nil {
		t.Errorf("the recount found %+v, %v", drift, err)
	}
}

// started: nothing is created or brought up where money is due, and all else goes on.
func started(t *testing.T, w World) {
	id, system := w.tenant(t)
	admin := identity.With(system,
		identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin})
	set := func(status billing.Status, on plan.ID, suspended bool) {
		t.Helper()
		a := w.account(t, id)
		s := paid(on)
		s.Status = status
		a.ApplySubscription(s, now())
		a.Suspend(suspended, now())
		if err := w.Processes[0].Save(system, a, ""); err != nil {
			t.Fatal(err)
		}
	}
	act := func(ctx context.Context, agentID string, trigger agent.Trigger) error {
		_, err := w.Agents.Change(ctx, agentID,
			func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, now()) })
		return err
	}
	set(billing.Active, plan.Startup, false)
	var ids []string
	for range 2 {
		a, err := w.Agents.Create(admin, agenttest.Draft(plan.Starter))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.ID)
	}
	if err := act(admin, ids[0], agent.Stop); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status    billing.Status
		suspended bool
		code      string
	}{{status: billing.PastDue, suspended: false, code: "subscription_past_due"},
		{status: billing.Active, suspended: true, code: "billing_required"},
		{status: billing.Canceled, suspended: false, code: "plan_capacity_exceeded"}} {
		set(c.status, plan.Startup, c.suspended)
		_, creating := w.Agents.Create(admin, agenttest.Draft(plan.Hobby))
		for what, err := range map[string]error{"create": creating, "start": act(admin, ids[0], agent.Start)} {
			if !fault.Is(err, fault.PaymentRequired) || fault.Code(err) != c.code {
				t.Errorf("%s while %s (suspended %t): %v, want %s", what, c.status, c.suspended, err, c.code)
			}
		}
		if _, err := w.Agents.Get(admin, ids[0]); err != nil {
			t.Errorf("get while %s: %v", c.status, err)
		}
	}
	if err := errors.Join(act(admin, ids[1], agent.Delete), act(admin, ids[0], agent.Delete)); err != nil {
		t.Errorf("delete: %v", err)
	}
	set(billing.Active, plan.Startup, false)
	if _, err := w.Agents.Create(admin, agenttest.Draft(plan.Starter)); err != nil {
		t.Errorf("create after payment: %v", err)
	}
}
