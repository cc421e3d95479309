// Package billingtest is the conformance suite of the store of package billing. It knows what a store promises, and
// nothing about how it keeps the promise.
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
	ctx = identity.With(t.Context(),
		identity.Caller{Type: identity.System, ID: "stripe", OrganizationID: id, Role: identity.RoleAdmin})
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
		Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: billing.Active, Plan: on,
		Interval:    billing.Year,
		PeriodStart: now(), PeriodEnd: now().AddDate(1, 0, 0), CancelAtPeriodEnd: true, PendingPlan: plan.Hobby,
		StartedAt: now(),
	}
}

func fresh(t *testing.T, w World) {
	id, _ := w.tenant(t)
	a := w.account(t, id)
	if a.ID != id || a.Plan != plan.Hobby || a.Status != organization.Active ||
		a.Subscription != (billing.Subscription{Status: billing.None}) ||
		!a.DueAt.IsZero() || a.Suspended || a.Version == "" {
		t.Errorf("a new account is %+v", a)
	}
}

func save(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	a := w.account(t, id)
	a.ApplySubscription(paid(plan.Pro), now())
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
	if e.Action != "ChangeSubscription" || e.Actor.Type != identity.System || e.Actor.ID != "stripe" ||
		e.Target.Type != "organization" ||
		e.Target.ID != id || e.Outcome != audit.Succeeded ||
		!slices.Contains(e.Changes, audit.Change{Field: "plan", Old: "hobby", New: "pro"}) {
		t.Errorf("the audit entry is %+v", e)
	}
}

func saveChanged(t *testing.T, w World) {
	id, ctx := w.tenant(t)
	old := w.account(t, id)
	a := old
	a.ApplySubscription(paid(plan.Pro), now())
	if err := w.Processes[0].Save(ctx, a, ""); err != nil {
		t.Fatal(err)
	}
	old.ApplySubscription(paid(plan.Starter), now())
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
	first.ApplySubscription(paid(plan.Pro), now())
	second.ApplySubscription(paid(plan.Pro), now())
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
	again.ApplySubscription(billing.Subscription{ID: "sub_1", Status: billing.Canceled}, now())
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
	if err := w.Processes[1].Postpone(ctx, w.account(t, id), time.Time{}); err != nil ||
		!w.account(t, id).DueAt.IsZero() {
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
