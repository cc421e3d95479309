// Package billingtest is the conformance suite of the store of package billing. It knows what a store promises, and nothing about how it
// keeps the promise.
package billingtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// World is an empty store, as several processes see it, and what a test needs to look behind it.
type World struct {
	// Processes are stores over the same records that share nothing else. There are at least two.
	Processes []billing.Store
	Agents    agent.Store
	Directory organization.Directory
	Counts    organization.Counts
	// Entries reads the audit entries of an organization in the order of their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// Test holds a billing.Store to its promises. open makes an empty world.
func Test(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"a new organization":      fresh,
		"save":                    save,
		"save what was changed":   saveChanged,
		"an event once":           eventOnce,
		"postpone":                postpone,
		"due":                     due,
		"unknown organization":    unknown,
		"webhooks race creations": race,
		"what may be started":     started,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// tenant is an organization in a test, and the context of who changes its account.
func (w World) tenant(t *testing.T) (id string, ctx context.Context) {
	t.Helper()
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	id = "org_" + hex.EncodeToString(b)
	if err := w.Directory.Ensure(t.Context(), id, organization.User{}); err != nil {
		t.Fatal(err)
	}
	ctx = identity.With(t.Context(), identity.Caller{Type: identity.System, ID: "stripe", OrganizationID: id, Role: identity.RoleAdmin})
	return id, audit.With(ctx, audit.Request{Action: "ChangeSubscription", RequestID: "request_1"})
}

func (w World) account(t *testing.T, id string) billing.Account {
	t.Helper()
	a, err := w.Processes[0].Account(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

func paid(on plan.ID) billing.Subscription {
	return billing.Subscription{
		Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: billing.Active, Plan: on, Interval: billing.Year,
		PeriodStart: now(), PeriodEnd: now().AddDate(1, 0, 0), CancelAtPeriodEnd: true, PendingPlan: plan.Hobby, StartedAt: now(),
	}
}

func fresh(t *testing.T, w World) {
	id, _ := w.tenant(t)
	a := w.account(t, id)
	if a.ID != id || a.Plan != plan.Hobby || a.Status != organization.Active || a.Subscription != (billing.Subscription{Status: billing.None}) ||
		!a.DueAt.IsZero() || a.Suspended || a.Version == "" {
		t.Errorf("a new account is %+v", a)
	}
}

func save(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	a := w.account(t, id)
	a.Take(paid(plan.Pro), now())
	a.Suspend(true, now())
	if err := w.Processes[0].Save(ctx, a, "evt_1"); err != nil {
		t.Fatal(err)
	}
	got, err := w.Processes[1].Account(ctx, id)
	version := got.Version
	if got.Version = a.Version; err != nil || got != a || version == a.Version {
		t.Errorf("saved\n%+v, read\n%+v, %v", a, got, err)
	}
	entries, err := w.Entries(ctx, id)
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d audit entries, %v; want 1", len(entries), err)
	}
	e := entries[0]
	if e.Action != "ChangeSubscription" || e.Actor.Type != identity.System || e.Actor.ID != "stripe" || e.Target.Type != "organization" ||
		e.Target.ID != id || e.Outcome != audit.Succeeded || !slices.Contains(e.Changes, audit.Change{Field: "plan", Old: "hobby", New: "pro"}) {
		t.Errorf("the audit entry is %+v", e)
	}
}

func saveChanged(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	old := w.account(t, id)
	a := old
	a.Take(paid(plan.Pro), now())
	if err := w.Processes[0].Save(ctx, a, ""); err != nil {
		t.Fatal(err)
	}
	old.Take(paid(plan.Starter), now())
	if err := w.Processes[1].Save(ctx, old, "evt_late"); !errors.Is(err, billing.ErrChanged) {
		t.Errorf("saving what was changed meanwhile: %v, want ErrChanged", err)
	}
	if done, err := w.Processes[0].Applied(ctx, "evt_late"); done || err != nil {
		t.Errorf("the event of a save that was refused is applied: %t, %v", done, err)
	}
	if a := w.account(t, id); a.Plan != plan.Pro {
		t.Errorf("the plan is %s, want pro", a.Plan)
	}
}

func eventOnce(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	first, second := w.account(t, id), w.account(t, id)
	if done, err := w.Processes[0].Applied(ctx, "evt_1"); done || err != nil {
		t.Fatalf("an event that never was is applied: %t, %v", done, err)
	}
	first.Take(paid(plan.Pro), now())
	second.Take(paid(plan.Pro), now())
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, a := range []billing.Account{first, second} {
		both.Go(func() { errs[i] = w.Processes[i].Save(ctx, a, "evt_1") })
	}
	both.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, billing.ErrChanged) {
			t.Errorf("of two saves of one event, one: %v", err)
		}
	}
	if done, err := w.Processes[1].Applied(ctx, "evt_1"); !done || err != nil {
		t.Errorf("the event is not applied: %t, %v", done, err)
	}
	// The record is new, the event is not: it is a success that writes nothing.
	again := w.account(t, id)
	again.Take(billing.Subscription{ID: "sub_1", Status: billing.Canceled}, now())
	if err := w.Processes[1].Save(ctx, again, "evt_1"); err != nil {
		t.Errorf("saving an event again: %v", err)
	}
	if a := w.account(t, id); a.Plan != plan.Pro {
		t.Errorf("an event that was applied before was applied again: plan %s", a.Plan)
	}
	if entries, err := w.Entries(ctx, id); err != nil || len(entries) != 1 {
		t.Errorf("%d audit entries, %v; want 1", len(entries), err)
	}
}

func postpone(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	a := w.account(t, id)
	next := now().Add(time.Hour)
	if err := w.Processes[0].Postpone(ctx, a, next); err != nil {
		t.Fatal(err)
	}
	if err := w.Processes[1].Postpone(ctx, a, time.Time{}); !errors.Is(err, billing.ErrChanged) {
		t.Errorf("postponing what was changed meanwhile: %v, want ErrChanged", err)
	}
	if got := w.account(t, id).DueAt; !got.Equal(next) {
		t.Errorf("due at %s, want %s", got, next)
	}
	if err := w.Processes[1].Postpone(ctx, w.account(t, id), time.Time{}); err != nil || !w.account(t, id).DueAt.IsZero() {
		t.Errorf("postponing for ever: %v, due at %s", err, w.account(t, id).DueAt)
	}
}

func due(t *testing.T, w World) {
	at := now()
	var want []string
	for _, age := range []time.Duration{-time.Hour, 0, 2 * time.Hour, time.Hour} {
		id, ctx := w.tenant(t)
		if age != 0 {
			if err := w.Processes[0].Postpone(ctx, w.account(t, id), at.Add(-age)); err != nil {
				t.Fatal(err)
			}
		}
		if age > 0 {
			want = append(want, id)
		}
	}
	for limit := range 3 {
		got, err := w.Processes[1].Due(t.Context(), at, limit+1)
		if err != nil || !slices.Equal(got, want[:min(limit+1, len(want))]) {
			t.Errorf("due, at most %d: %v, %v; want of %v", limit+1, got, err, want)
		}
	}
}

func unknown(t *testing.T, w World) {
	_, ctx := w.tenant(t)
	for _, id := range []string{"org_nowhere", "", "a/b"} {
		if _, err := w.Processes[0].Account(ctx, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("the account of %q: %v, want not found", id, err)
		}
	}
}

// race: two events and two creations at once. Nothing is lost, and a recount agrees with what the organization is said to hold.
func race(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	prepared := w.account(t, id)
	prepared.Take(paid(plan.Starter), now())
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
					a.Take(paid(plan.Pro), now())
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
	admin := identity.With(system, identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin})
	set := func(status billing.Status, on plan.ID, suspended bool) {
		t.Helper()
		a := w.account(t, id)
		s := paid(on)
		s.Status = status
		a.Take(s, now())
		a.Suspend(suspended, now())
		if err := w.Processes[0].Save(system, a, ""); err != nil {
			t.Fatal(err)
		}
	}
	act := func(ctx context.Context, agentID string, trigger agent.Trigger) error {
		_, err := w.Agents.Change(ctx, agentID, func(a *agent.Agent) error { return a.Act(trigger, agent.Manual, now()) })
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
	}{{billing.PastDue, false, "subscription_past_due"}, {billing.Active, true, "billing_required"}, {billing.Canceled, false, "plan_capacity_exceeded"}} {
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
