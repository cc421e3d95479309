// Package apikeytest is the conformance suite for implementations of apikey.Store and apikey.Finder. It does not depend
// on an implementation: each adapter provides a Fixture.
package apikeytest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"reflect"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// Fixture is an empty store, and access to its records for the tests.
type Fixture struct {
	Store  apikey.Store
	Finder apikey.Finder
	// Flush waits until the background writes of Touch are done.
	Flush func()
	// Organization reads an organization's record.
	Organization func(ctx context.Context, id string) (organization.Organization, error)
	// Entries reads the audit entries of an organization in the order of their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// tenant is an organization of a test, with the context of its admin's requests.
type tenant struct {
	t       *testing.T
	fixture Fixture
	id      string
	ctx     context.Context
}

func (w Fixture) tenant(t *testing.T) tenant {
	id := "org_" + random()
	caller := identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin}
	return tenant{t, w, id, call.WithRequest(call.As(t.Context(), caller), audit.Request{Action: "TestKey"})}
}

func random() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(b)
}

func now() time.Time { return time.Now().UTC().Truncate(time.Microsecond) }

// newKey makes a key as a route does.
func newKey() apikey.Key {
	full := apikey.Generate()
	return apikey.Key{
		ID: random(), Name: "CI", Purpose: "ci", Role: apikey.RoleAdmin, Prefix: full[:apikey.PrefixLength],
		Hash:      apikey.Hash([]byte("pepper"), full),
		CreatedBy: "user_1", CreatedAt: now(),
	}
}

// create creates a key within the organization's limit, with the changes of edit. It returns the expected record.
func (n tenant) create(edit func(*apikey.Key)) apikey.Key {
	n.t.Helper()
	k := newKey()
	if edit != nil {
		edit(&k)
	}
	created, err := n.fixture.Store.Create(n.ctx, k)
	if err != nil {
		n.t.Fatalf("apikeytest: create a key: %v", err)
	}
	k.OrganizationID = n.id
	if !reflect.DeepEqual(created, k) {
		n.t.Errorf("apikeytest: Create = %+v, want %+v", created, k)
	}
	return k
}

// countedKeys returns the number of keys in the organization's recorded usage.
func (n tenant) countedKeys() int64 {
	n.t.Helper()
	o, err := n.fixture.Organization(n.ctx, n.id)
	if err != nil {
		n.t.Fatalf("apikeytest: read the organization: %v", err)
	}
	return o.Usage.APIKeys
}

// wantKeys checks the number of keys in the list and in the organization's recorded usage.
func (n tenant) wantKeys(want int) {
	n.t.Helper()
	if got := len(n.listAll(100)); got != want {
		n.t.Errorf("apikeytest: %d keys listed, want %d", got, want)
	}
	if got := n.countedKeys(); got != int64(want) {
		n.t.Errorf("apikeytest: the organization counts %d keys, want %d", got, want)
	}
}

// revoke revokes a key that exists.
func (n tenant) revoke(id string) {
	n.t.Helper()
	if err := n.fixture.Store.Revoke(n.ctx, id); err != nil {
		n.t.Fatalf("apikeytest: revoke a key: %v", err)
	}
}

// entries returns the organization's audit entries.
func (n tenant) entries() []audit.Entry {
	n.t.Helper()
	entries, err := n.fixture.Entries(n.ctx, n.id)
	if err != nil {
		n.t.Fatalf("apikeytest: read the audit log: %v", err)
	}
	return entries
}

// auditedActions returns the organization's audit entries as text, such as "CreateKey api_key <id> succeeded".
func (n tenant) auditedActions() []string {
	n.t.Helper()
	entries := n.entries()
	actions := make([]string, len(entries))
	for i, e := range entries {
		actions[i] = fmt.Sprint(e.Action, " ", e.Target.Type, " ", e.Target.ID, " ", e.Outcome)
	}
	return actions
}

// listAll lists all pages.
func (n tenant) listAll(limit int) []apikey.Key {
	n.t.Helper()
	var all []apikey.Key
	for cursor := ""; ; {
		p, err := n.fixture.Store.List(n.ctx, page.Request{Limit: limit, Cursor: cursor})
		if err != nil {
			n.t.Fatalf("apikeytest: list keys: %v", err)
		}
		all = append(all, p.Items...)
		if cursor = p.Next; cursor == "" {
			return all
		}
	}
}
