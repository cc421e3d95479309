// Package billingtest is the conformance suite for implementations of billing.Store, and for billing.Service and
// billing.Enforcer on top of them. It does not depend on an implementation: each adapter provides a Fixture.
package billingtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Fixture is an empty store that several processes use, and access to its records for the tests.
type Fixture struct {
	// Processes are at least two stores that share their records and nothing else.
	Processes []billing.Store
	Agents    agent.Store
	Directory organization.Directory
	Counts    organization.Counts
	// Entries reads the audit entries of an organization in the order of their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// Test tests that a billing.Store keeps its contract. open makes an empty fixture.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"a new organization has no subscription":       newOrganization,
		"save stores every field and an audit entry":   saveStoresEveryField,
		"save refuses an outdated account":             saveRefusesOutdatedAccount,
		"save applies an event once":                   saveAppliesEventOnce,
		"postpone sets only the due time":              postponeSetsDueTime,
		"due lists the longest due first":              dueListsLongestDueFirst,
		"unknown organizations are not found":          unknownOrganizations,
		"concurrent events and creations lose nothing": concurrentEventsAndCreations,
		"agents start only while payment is in order":  startNeedsPayment,
		"a suspension in between refuses a start":      suspensionRefusesStart,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// tenant makes an organization, and the context of a caller who may change its account.
func (w Fixture) tenant(t *testing.T) (id string, ctx context.Context) {
	t.Helper()
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	id = "org_" + hex.EncodeToString(b)
	if _, err := w.Directory.Ensure(t.Context(), id, organization.User{}); err != nil {
		t.Fatalf("billingtest: create an organization: %v", err)
	}
	ctx = call.As(t.Context(),
		identity.Caller{Type: identity.System, ID: "stripe", OrganizationID: id, Role: identity.RoleAdmin})
	return id, call.WithRequest(ctx, audit.Request{Action: "ChangeSubscription", RequestID: "request_1"})
}

func (w Fixture) account(t *testing.T, id string) billing.Account {
	t.Helper()
	a, err := w.Processes[0].Account(t.Context(), id)
	if err != nil {
		t.Fatalf("billingtest: read the account: %v", err)
	}
	return a
}

// save saves an account from the first process.
func (w Fixture) save(ctx context.Context, t *testing.T, a billing.Account, eventID string) {
	t.Helper()
	if err := w.Processes[0].Save(ctx, a, eventID); err != nil {
		t.Fatalf("billingtest: save the account: %v", err)
	}
}

// wantPlan checks the plan of an organization.
func (w Fixture) wantPlan(t *testing.T, id string, want plan.ID) {
	t.Helper()
	if got := w.account(t, id).Plan; got != want {
		t.Errorf("billingtest: plan = %s, want %s", got, want)
	}
}

// wantApplied checks whether an event has been applied, as a process sees it.
func (w Fixture) wantApplied(ctx context.Context, t *testing.T, process int, eventID string, want bool) {
	t.Helper()
	if got, err := w.Processes[process].Applied(ctx, eventID); err != nil || got != want {
		t.Errorf("billingtest: Applied(%s) = %t, %v; want %t", eventID, got, err, want)
	}
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// paidSubscription is a live subscription to a plan that sets every field.
func paidSubscription(on plan.ID) billing.Subscription {
	return billing.Subscription{
		Provider: billing.Stripe, ID: "sub_1", CustomerID: "cus_1", Status: billing.Active, Plan: on,
		Interval:    billing.Year,
		PeriodStart: now(), PeriodEnd: now().AddDate(1, 0, 0), CancelAtPeriodEnd: true, PendingPlan: plan.Hobby,
		StartedAt: now(),
	}
}

func newOrganization(t *testing.T, w Fixture) {
	id, _ := w.tenant(t)
	got := w.account(t, id)
	if got.Version == "" {
		t.Error("billingtest: a new account has no version")
	}
	want := billing.Account{
		Organization: organization.New(id, got.CreatedAt),
		Subscription: billing.Subscription{Status: billing.None}, Version: got.Version,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("billingtest: new account = %+v, want %+v", got, want)
	}
}

func saveStoresEveryField(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	a := w.account(t, id)
	a.ApplySubscription(paidSubscription(plan.Pro), now())
	a.Suspend(true, now())
	a.FetchedAt = now()
	w.save(ctx, t, a, "evt_1")
	got, err := w.Processes[1].Account(ctx, id)
	if err != nil {
		t.Fatalf("billingtest: read the account: %v", err)
	}
	if got.Version == a.Version {
		t.Errorf("billingtest: the version is still %s after a save", got.Version)
	}
	if got.Version = a.Version; !reflect.DeepEqual(got, a) {
		t.Errorf("billingtest: account after save = %+v\nwant %+v", got, a)
	}
	entries, err := w.Entries(ctx, id)
	if err != nil || len(entries) != 1 {
		t.Fatalf("billingtest: %d audit entries, %v; want 1", len(entries), err)
	}
	e := entries[0]
	if e.Action != "ChangeSubscription" || e.Outcome != audit.Succeeded {
		t.Errorf("billingtest: audited action %s with outcome %s, want ChangeSubscription with %s", e.Action, e.Outcome,
			audit.Succeeded)
	}
	if e.Actor.Type != identity.System || e.Actor.ID != "stripe" {
		t.Errorf("billingtest: audited actor = %+v, want the system's stripe", e.Actor)
	}
	if e.Target.Type != "organization" || e.Target.ID != id {
		t.Errorf("billingtest: audited target = %+v, want organization %s", e.Target, id)
	}
	if want := (audit.Change{Field: "plan", Old: "hobby", New: "pro"}); !slices.Contains(e.Changes, want) {
		t.Errorf("billingtest: audited changes = %+v, want them to contain %+v", e.Changes, want)
	}
}

func saveRefusesOutdatedAccount(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	outdated := w.account(t, id)
	a := outdated
	a.ApplySubscription(paidSubscription(plan.Pro), now())
	w.save(ctx, t, a, "")
	outdated.ApplySubscription(paidSubscription(plan.Starter), now())
	if err := w.Processes[1].Save(ctx, outdated, "evt_late"); !errors.Is(err, billing.ErrChanged) {
		t.Errorf("billingtest: save an outdated account: %v, want ErrChanged", err)
	}
	w.wantApplied(ctx, t, 0, "evt_late", false)
	w.wantPlan(t, id, plan.Pro)
}

func saveAppliesEventOnce(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	first, second := w.account(t, id), w.account(t, id)
	w.wantApplied(ctx, t, 0, "evt_1", false)
	first.ApplySubscription(paidSubscription(plan.Pro), now())
	second.ApplySubscription(paidSubscription(plan.Pro), now())
	var both sync.WaitGroup
	errs := make([]error, 2)
	for i, a := range []billing.Account{first, second} {
		both.Go(func() { errs[i] = w.Processes[i].Save(ctx, a, "evt_1") })
	}
	both.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, billing.ErrChanged) {
			t.Errorf("billingtest: concurrent saves of one event: %v, want success or ErrChanged", err)
		}
	}
	w.wantApplied(ctx, t, 1, "evt_1", true)
	// The account is current, but the event has been applied: the save succeeds and writes nothing.
	again := w.account(t, id)
	again.ApplySubscription(billing.Subscription{ID: "sub_1", Status: billing.Canceled}, now())
	if err := w.Processes[1].Save(ctx, again, "evt_1"); err != nil {
		t.Errorf("billingtest: save an applied event again: %v, want success", err)
	}
	w.wantPlan(t, id, plan.Pro)
	if entries, err := w.Entries(ctx, id); err != nil || len(entries) != 1 {
		t.Errorf("billingtest: %d audit entries, %v; want 1", len(entries), err)
	}
}

func postponeSetsDueTime(t *testing.T, w Fixture) {
	id, ctx := w.tenant(t)
	a := w.account(t, id)
	next, fetched := now().Add(time.Hour), now()
	a.FetchedAt = fetched
	if err := w.Processes[0].Postpone(ctx, a, next); err != nil {
		t.Fatalf("billingtest: postpone: %v", err)
	}
	if err := w.Processes[1].Postpone(ctx, a, time.Time{}); !errors.Is(err, billing.ErrChanged) {
		t.Errorf("billingtest: postpone an outdated account: %v, want ErrChanged", err)
	}
	if got := w.account(t, id); !got.DueAt.Equal(next) || !got.FetchedAt.Equal(fetched) {
		t.Errorf("billingtest: DueAt = %s and FetchedAt = %s, want %s and %s", got.DueAt, got.FetchedAt, next, fetched)
	}
	if err := w.Processes[1].Postpone(ctx, w.account(t, id), time.Time{}); err != nil {
		t.Errorf("billingtest: postpone forever: %v", err)
	}
	if got := w.account(t, id).DueAt; !got.IsZero() {
		t.Errorf("billingtest: DueAt = %s after postponing forever, want zero", got)
	}
}

func dueListsLongestDueFirst(t *testing.T, w Fixture) {
	at := now()
	var want []string
	for _, age := range []time.Duration{-time.Hour, 0, 2 * time.Hour, time.Hour} {
		id, ctx := w.tenant(t)
		if age != 0 {
			if err := w.Processes[0].Postpone(ctx, w.account(t, id), at.Add(-age)); err != nil {
				t.Fatalf("billingtest: postpone: %v", err)
			}
		}
		if age > 0 {
			want = append(want, id)
		}
	}
	for limit := range 3 {
		got, err := w.Processes[1].Due(t.Context(), at, limit+1)
		if err != nil || !slices.Equal(got, want[:min(limit+1, len(want))]) {
			t.Errorf("billingtest: due, at most %d: %v, %v; want the first of %v", limit+1, got, err, want)
		}
	}
}

func unknownOrganizations(t *testing.T, w Fixture) {
	_, ctx := w.tenant(t)
	for _, id := range []string{"org_nowhere", "", "a/b"} {
		if _, err := w.Processes[0].Account(ctx, id); !fault.Is(err, fault.NotFound) {
			t.Errorf("billingtest: account of %q: %v, want not found", id, err)
		}
	}
}
