// Package organizationtest is the conformance suite of the port of package organization. It knows what a directory
// promises, and nothing about how it keeps the promise.
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

// World is an empty directory, as several processes see it, and what a test needs to look behind it.
type World struct {
	// Processes are directories over the same records that share nothing else. There are at least two.
	Processes []organization.Directory
	// User reads a user's record. Errors: NotFound.
	User func(ctx context.Context, id string) (organization.User, error)
}

// TestDirectory holds an organization.Directory to its promises. open makes an empty world.
func TestDirectory(t *testing.T, open func(*testing.T) World) {
	for name, test := range map[string]func(*testing.T, World){
		"ensure":                 ensure,
		"ensure in a race":       ensureRace,
		"ensure what is there":   ensureKnown,
		"ensure a part":          ensurePart,
		"unknown organization":   unknownOrganization,
		"ids that can't be kept": badIDs,
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

func ensure(t *testing.T, w World) {
	org, u := "org_"+random(), newUser()
	for range 2 {
		if err := w.Processes[0].Ensure(t.Context(), org, u); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range w.Processes {
		o, err := d.Organization(t.Context(), org)
		want := organization.New(org, o.CreatedAt)
		if err != nil || o != want || time.Since(o.CreatedAt).Abs() > time.Minute {
			t.Errorf("the organization is %+v, %v; want a new one", o, err)
		}
	}
	got, err := w.User(t.Context(), u.ID)
	if err != nil || time.Since(got.CreatedAt).Abs() > time.Minute {
		t.Errorf("the user was created at %v, %v; want now", got.CreatedAt, err)
	}
	if u.CreatedAt = got.CreatedAt; got != u {
		t.Errorf("the user is %+v, want %+v", got, u)
	}
}

func ensureRace(t *testing.T, w World) {
	org, u := "org_"+random(), newUser()
	errs := make([]error, 16)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Processes[i%len(w.Processes)].Ensure(t.Context(), org, u) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if _, err := w.Processes[0].Organization(t.Context(), org); err != nil {
		t.Error(err)
	}
	if _, err := w.User(t.Context(), u.ID); err != nil {
		t.Error(err)
	}
}

// ensureKnown: a name and an email are those of the last token that had them, whichever process saw it; all else stays.
func ensureKnown(t *testing.T, w World) {
	org, u := "org_"+random(), newUser()
	if err := w.Processes[0].Ensure(t.Context(), org, u); err != nil {
		t.Fatal(err)
	}
	before, err := w.User(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		process         int
		email, name     string
		wantMail, wants string
	}{
		{process: 1, email: "ada@example.com", name: "Ada Lovelace", wantMail: "ada@example.com",
			wants: "Ada Lovelace"},
		{process: 0, email: "countess@example.com", name: "Ada", wantMail: "countess@example.com", wants: "Ada"},
		// a token that says nothing takes nothing away
		{process: 1, email: "countess@example.com", name: "", wantMail: "countess@example.com", wants: "Ada"},
		{process: 1, email: "ada@example.com", name: "Ada", wantMail: "ada@example.com", wants: "Ada"},
		{process: 1, email: "ada@example.com", name: "Ada", wantMail: "ada@example.com", wants: "Ada"},
	} {
		again := u
		again.Email, again.Name, again.CreatedAt, again.Subject = step.email, step.name, time.Now().Add(time.Hour),
			"another"
		if err := w.Processes[step.process].Ensure(t.Context(), org, again); err != nil {
			t.Error(err)
		}
		want := before
		want.Email, want.Name = step.wantMail, step.wants
		if after, err := w.User(t.Context(), u.ID); err != nil || after != want {
			t.Errorf("after a token of %q, %q the user is %+v, %v; want %+v", step.email, step.name, after, err, want)
		}
	}
}

func ensurePart(t *testing.T, w World) {
	d, org, u := w.Processes[0], "org_"+random(), newUser()
	if err := d.Ensure(t.Context(), "", u); err != nil {
		t.Errorf("a user without an organization: %v", err)
	}
	if _, err := w.User(t.Context(), u.ID); err != nil {
		t.Error(err)
	}
	// The user is known by now, the organization is not.
	if err := d.Ensure(t.Context(), org, u); err != nil {
		t.Error(err)
	}
	if o, err := d.Organization(t.Context(), org); err != nil || o.Plan != plan.Hobby {
		t.Errorf("the organization is %+v, %v", o, err)
	}
	if err := d.Ensure(t.Context(), "", organization.User{}); err != nil {
		t.Errorf("nothing to ensure: %v", err)
	}
}

func unknownOrganization(t *testing.T, w World) {
	for _, id := range []string{"org_" + random(), "", "a/b", ".."} {
		if _, err := w.Processes[0].Organization(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("the organization %q: %v, want not found", id, err)
		}
	}
}

func badIDs(t *testing.T, w World) {
	for _, id := range []string{"a/b", ".", "__x__", "\xff"} {
		if err := w.Processes[0].Ensure(t.Context(), id, organization.User{}); err == nil {
			t.Errorf("the organization %q was ensured", id)
		}
		if err := w.Processes[0].Ensure(t.Context(), "", organization.User{ID: id}); err == nil {
			t.Errorf("the user %q was ensured", id)
		}
	}
}
