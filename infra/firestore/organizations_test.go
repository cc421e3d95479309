package firestore

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/plan"
)

// openTwo opens a new database from two processes.
func openTwo(t *testing.T) []*Client {
	t.Helper()
	one := open(t, "", Options{})
	return []*Client{one, open(t, one.project(), Options{})}
}

// newMember makes the ids of an organization and a user whom no directory knows.
func newMember() (organizationID string, u organization.User) {
	id := agenttest.ID()
	return "org_" + id, organization.User{ID: "user_" + id, Subject: "sub-" + id, Email: "ada@example.com", Name: "Ada"}
}

// storedUser reads a user that exists.
func storedUser(t *testing.T, c *Client, id string) organization.User {
	t.Helper()
	u, err := c.readUser(t.Context(), id)
	must(t, err)
	return u
}

func TestEnsure_CreatesAnOrganizationAndAUser(t *testing.T) {
	t.Parallel()
	processes := openTwo(t)
	org, u := newMember()
	for range 2 {
		must(t, errorOf(processes[0].Directory().Ensure(t.Context(), org, u)))
	}
	for i, c := range processes {
		o, err := c.Directory().Organization(t.Context(), org)
		if want := organization.New(org, o.CreatedAt); err != nil || !reflect.DeepEqual(o, want) {
			t.Errorf("process %d reads organization %+v, %v; want %+v", i, o, err, want)
		}
		if time.Since(o.CreatedAt).Abs() > time.Minute {
			t.Errorf("the organization was created at %v, want now", o.CreatedAt)
		}
	}
	got := storedUser(t, processes[0], u.ID)
	if time.Since(got.CreatedAt).Abs() > time.Minute {
		t.Errorf("the user was created at %v, want now", got.CreatedAt)
	}
	if u.CreatedAt = got.CreatedAt; got != u {
		t.Errorf("user = %+v, want %+v", got, u)
	}
}

func TestEnsure_SucceedsConcurrently(t *testing.T) {
	t.Parallel()
	processes := openTwo(t)
	org, u := newMember()
	errs := make([]error, 16)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = processes[i%2].Directory().Ensure(t.Context(), org, u) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("concurrent ensures: %v", err)
	}
	if _, err := processes[0].Directory().Organization(t.Context(), org); err != nil {
		t.Errorf("read the organization: %v", err)
	}
	storedUser(t, processes[0], u.ID)
}

// TestEnsure_UpdatesAKnownUser checks that a user has the email and name of the last token that had them, from any
// process. The other fields must not change.
func TestEnsure_UpdatesAKnownUser(t *testing.T) {
	t.Parallel()
	processes := openTwo(t)
	org, u := newMember()
	must(t, errorOf(processes[0].Directory().Ensure(t.Context(), org, u)))
	before := storedUser(t, processes[0], u.ID)
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
		if _, err := processes[step.process].Directory().Ensure(t.Context(), org, again); err != nil {
			t.Errorf("ensure a known user: %v", err)
		}
		want := before
		want.Email, want.Name = step.wantEmail, step.wantName
		if got := storedUser(t, processes[0], u.ID); got != want {
			t.Errorf("after email %q and name %q, user = %+v, want %+v", step.email, step.name, got, want)
		}
	}
}

func TestEnsure_SkipsAnEmptyOrganizationOrUser(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org, u := newMember()
	must(t, errorOf(c.Directory().Ensure(t.Context(), "", u)))
	storedUser(t, c, u.ID)
	// Now the user is known, but the organization is not.
	must(t, errorOf(c.Directory().Ensure(t.Context(), org, u)))
	if o, err := c.Directory().Organization(t.Context(), org); err != nil || o.Plan != plan.Hobby {
		t.Errorf("organization = %+v, %v; want a new one", o, err)
	}
	must(t, errorOf(c.Directory().Ensure(t.Context(), "", organization.User{})))
}

func TestDirectory_UnknownOrganizationIsNotFound(t *testing.T) {
	t.Parallel()
	directory := open(t, "", Options{}).Directory()
	for _, id := range []string{"org_" + agenttest.ID(), "", "a/b", ".."} {
		if _, err := directory.Organization(t.Context(), id); !fault.Is(err, fault.NotFound) {
			t.Errorf("organization %q: %v, want not found", id, err)
		}
	}
}

func TestEnsure_RefusesInvalidIDs(t *testing.T) {
	t.Parallel()
	directory := open(t, "", Options{}).Directory()
	for _, id := range []string{"a/b", ".", "__x__", "\xff"} {
		if _, err := directory.Ensure(t.Context(), id, organization.User{}); err == nil {
			t.Errorf("ensure accepted the organization id %q", id)
		}
		if _, err := directory.Ensure(t.Context(), "", organization.User{ID: id}); err == nil {
			t.Errorf("ensure accepted the user id %q", id)
		}
	}
}
