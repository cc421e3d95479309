// Package organizationtest is the conformance suite for implementations of organization.Directory and
// organization.Counts. It does not depend on an implementation: each adapter provides a Fixture or a CountsFixture.
package organizationtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// Fixture is an empty directory that several processes use, and access to its records for the tests.
type Fixture struct {
	// Processes are at least two directories that share their records and nothing else.
	Processes []organization.Directory
	// User reads a user's record. Errors: NotFound.
	User func(ctx context.Context, id string) (organization.User, error)
}

// TestDirectory tests that an organization.Directory keeps its contract. open makes an empty fixture.
func TestDirectory(t *testing.T, open func(*testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"ensure creates an organization and a user":    ensureCreates,
		"concurrent ensures all succeed":               concurrentEnsures,
		"ensure updates a known user's email and name": ensureUpdatesUser,
		"ensure skips an empty organization or user":   ensureSkipsEmptyIDs,
		"unknown organizations are not found":          unknownOrganizations,
		"ensure refuses invalid ids":                   ensureRefusesInvalidIDs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func random() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

func newUser() organization.User {
	id := random()
	return organization.User{ID: "user_" + id, Subject: "sub-" + id, Email: "ada@example.com", Name: "Ada"}
}

// ensure ensures an organization and a user from the first process.
func (w Fixture) ensure(t *testing.T, org string, u organization.User) {
	t.Helper()
	if err := w.Processes[0].Ensure(t.Context(), org, u); err != nil {
		t.Fatalf("organizationtest: ensure %q, %q: %v", org, u.ID, err)
	}
}

func (w Fixture) user(t *testing.T, id string) organization.User {
	t.Helper()
	u, err := w.User(t.Context(), id)
	if err != nil {
		t.Fatalf("organizationtest: read user %s: %v", id, err)
	}
	return u
}

func ensureCreates(t *testing.T, w Fixture) {
	org, u := "org_"+random(), newUser()
	for range 2 {
		w.ensure(t, org, u)
	}
	for i, d := range w.Processes {
		o, err := d.Organization(t.Context(), org)
		if want := organization.New(org, o.CreatedAt); err != nil || o != want {
			t.Errorf("organizationtest: process %d reads organization %+v, %v; want %+v", i, o, err, want)
		}
		if time.Since(o.CreatedAt).Abs() > time.Minute {
			t.Errorf("organizationtest: the organization was created at %v, want now", o.CreatedAt)
		}
	}
	got := w.user(t, u.ID)
	if time.Since(got.CreatedAt).Abs() > time.Minute {
		t.Errorf("organizationtest: the user was created at %v, want now", got.CreatedAt)
	}
	if u.CreatedAt = got.CreatedAt; got != u {
		t.Errorf("organizationtest: user = %+v, want %+v", got, u)
	}
}

func concurrentEnsures(t *testing.T, w Fixture) {
	org, u := "org_"+random(), newUser()
	errs := make([]error, 16)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Processes[i%len(w.Processes)].Ensure(t.Context(), org, u) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("organizationtest: concurrent ensures: %v", err)
	}
	if _, err := w.Processes[0].Organization(t.Context(), org); err != nil {
		t.Errorf("organizationtest: read the organization: %v", err)
	}
	w.user(t, u.ID)
}

// ensureUpdatesUser checks that a user has the email and name of the last token that had them, from any process. The
// other fields must not change.
func ensureUpdatesUser(t *testing.T, w Fixture) {
	org, u := "org_"+random(), newUser()
	w.ensure(t, org, u)
	before := w.user(t, u.ID)
	for _, step := range []struct {
		process             int
		email, name         string
		wantEmail, wantName string
	}{
		{
			process: 1, email: "ada@example.com", name: "Ada Lovelace", wantEmail: "ada@example.com",
			wantName: "Ada Lovelace",
		},
		{process: 0, email: "countess@example.com", name: "Ada", wantEmail: "countess@example.com", wantName: "Ada"},
		// an empty name keeps the known one
		{process: 1, email: "countess@example.com", name: "", wantEmail: "countess@example.com", wantName: "Ada"},
		{process: 1, email: "ada@example.com", name: "Ada", wantEmail: "ada@example.com", wantName: "Ada"},
		{process: 1, email: "ada@example.com", name: "Ada", wantEmail: "ada@example.com", wantName: "Ada"},
	} {
		again := u
		again.Email, again.Name, again.CreatedAt, again.Subject = step.email, step.name, time.Now().Add(time.Hour),
			"another"
		if err := w.Processes[step.process].Ensure(t.Context(), org, again); err != nil {
			t.Errorf("organizationtest: ensure a known user: %v", err)
		}
		want := before
		want.Email, want.Name = step.wantEmail, step.wantName
		if got := w.user(t, u.ID); got != want {
			t.Errorf("organizationtest: after email %q and name %q, user = %+v, want %+v", step.email, step.name, got,
				want)
		}
	}
}

func ensureSkipsEmptyIDs(t *testing.T, w Fixture) {
	org, u := "org_"+random(), newUser()
	w.ensure(t, "", u)
	w.user(t, u.ID)
	// Now the user is known, but the organization is not.
	w.ensure(t, org, u)
	if o, err := w.Processes[0].Organization(t.Context(), org); err != nil || o.Plan != plan.Hobby {
		t.Errorf("organizationtest: organization = %+v, %v; want a new one", o, err)
	}
	w.ensure(t, "", organization.User{})
}

func unknownOrganizations(t *testing.T, w Fixture) {
	for _, id := range []string{"org_" + random(), "", "a/b", ".."} {
		if _, err := w.Processes[0].Organization(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("organizationtest: organization %q: %v, want not found", id, err)
		}
	}
}

func ensureRefusesInvalidIDs(t *testing.T, w Fixture) {
	for _, id := range []string{"a/b", ".", "__x__", "\xff"} {
		if err := w.Processes[0].Ensure(t.Context(), id, organization.User{}); err == nil {
			t.Errorf("organizationtest: ensure accepted the organization id %q", id)
		}
		if err := w.Processes[0].Ensure(t.Context(), "", organization.User{ID: id}); err == nil {
			t.Errorf("organizationtest: ensure accepted the user id %q", id)
		}
	}
}
