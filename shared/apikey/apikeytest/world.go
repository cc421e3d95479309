// Package apikeytest is the conformance suite of the ports of package apikey. It knows what a store promises to routes
// and to authentication, and nothing about how it keeps the promise: an adapter hands in a World of its own making.
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
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
)

// World is an empty store and what a test needs to look behind it.
type World struct {
	Store  apikey.Store
	Finder apikey.Finder
	// Settled waits until what Touch began in the background is done.
	Settled func()
	// Organization reads an organization's record.
	Organization func(ctx context.Context, id string) (organization.Organization, error)
	// Entries reads the audit entries of an organization in the order of their times.
	Entries func(ctx context.Context, organizationID string) ([]audit.Entry, error)
}

// tenant is an organization in a test, and the context of its administrator's requests.
type tenant struct {
	t     *testing.T
	world World
	id    string
	ctx   context.Context
}

func (w World) tenant(t *testing.T) tenant {
	id := "org_" + random()
	caller := identity.Caller{Type: identity.Session, ID: "user_1", OrganizationID: id, Role: identity.RoleAdmin}
	return tenant{t, w, id, audit.With(identity.With(t.Context(), caller), audit.Request{Action: "TestKey"})}
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
		ID: random(), Name: "CI", Purpose: "ci", Prefix: full[:apikey.PrefixLength],
		Hash:      apikey.Hash([]byte("pepper"), full),
		CreatedBy: "user_1", CreatedAt: now(),
	}
}

// create creates a key that the organization has room for, as edit has it. It returns the record that is to be found.
func (n tenant) create(edit func(*apikey.Key)) apikey.Key {
	n.t.Helper()
	k := newKey()
	if edit != nil {
		edit(&k)
	}
	created, err := n.world.Store.Create(n.ctx, k)
	if err != nil {
		n.t.Fatalf("create a key: %v", err)
	}
	k.OrganizationID = n.id
	if !reflect.DeepEqual(created, k) {
		n.t.Errorf("created %+v, want %+v", created, k)
	}
	return k
}

// live is how many keys the organization's record counts.
func (n tenant) live() int64 {
	n.t.Helper()
	o, err := n.world.Organization(n.ctx, n.id)
	if err != nil {
		n.t.Fatalf("read the organization: %v", err)
	}
	return o.Usage.APIKeys
}

// entries are the organization's audit entries.
func (n tenant) entries() []audit.Entry {
	n.t.Helper()
	entries, err := n.world.Entries(n.ctx, n.id)
	if err != nil {
		n.t.Fatalf("read the audit log: %v", err)
	}
	return entries
}

// audited are the targets of the organization's audit entries.
func (n tenant) audited() []string {
	n.t.Helper()
	entries := n.entries()
	targets := make([]string, len(entries))
	for i, e := range entries {
		targets[i] = fmt.Sprint(e.Action, " ", e.Target.Type, " ", e.Target.ID, " ", e.Outcome)
	}
	return targets
}

// listAll follows the cursors to the end.
func (n tenant) listAll(limit int) []apikey.Key {
	n.t.Helper()
	var all []apikey.Key
	for cursor := ""; ; {
		p, err := n.world.Store.List(n.ctx, page.Request{Limit: limit, Cursor: cursor})
		if err != nil {
			n.t.Fatalf("list keys: %v", err)
		}
		all = append(all, p.Items...)
		if cursor = p.Next; cursor == "" {
			return all
		}
	}
}
