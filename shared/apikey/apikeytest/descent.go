package apikeytest

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// descentTests are the tests of keys that keys create.
func descentTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"a key's key is bounded by it":                  keysKeyIsBounded,
		"a member key creates no admin key":             memberKeyCreatesNoAdminKey,
		"a revoked key creates no key":                  revokedKeyCreatesNone,
		"revocation includes descendants":               revocationIncludesDescendants,
		"revocation of a revoked key's descendants":     revocationAfterRevocation,
		"no descendant survives concurrent revocations": descendantsRace,
		"a repeated revocation with descendants":        repeatedRevocationWithDescendants,
	}
}

// as is the tenant with requests that authenticate with a key.
func (n tenant) as(k apikey.Key) tenant {
	caller := identity.Caller{Type: identity.APIKey, ID: k.ID, OrganizationID: n.id, Role: identity.RoleAdmin}
	n.ctx = call.WithRequest(call.As(n.t.Context(), caller), audit.Request{Action: "TestKey"})
	return n
}

// makeWith creates a key with another one, as a route does.
func (n tenant) makeWith(parent apikey.Key) apikey.Key {
	n.t.Helper()
	k := newKey()
	k.CreatedBy = parent.ID
	created, err := n.fixture.Store.Create(n.as(parent).ctx, k)
	if err != nil {
		n.t.Fatalf("apikeytest: create a key with the key %s: %v", parent.ID, err)
	}
	return created
}

// live returns those of the keys that are found.
func (n tenant) live(keys ...apikey.Key) []string {
	n.t.Helper()
	var ids []string
	for _, k := range keys {
		found, _, err := n.fixture.Finder.Find(n.ctx, k.Hash, document.Ref{})
		switch {
		case err == nil:
			ids = append(ids, found.ID)
		case !fault.Is(err, fault.NotFound):
			n.t.Errorf("apikeytest: find the key %s: %v", k.ID, err)
		}
	}
	return ids
}

func keysKeyIsBounded(t *testing.T, w Fixture) {
	org := w.tenant(t)
	parent := org.create(func(k *apikey.Key) { k.ExpiresAt = now().Add(time.Hour) })
	child := org.makeWith(parent)
	grandchild := org.makeWith(child)
	stored, _, err := w.Finder.Find(t.Context(), grandchild.Hash, document.Ref{})
	if err != nil || !reflect.DeepEqual(stored, grandchild) {
		t.Errorf("apikeytest: Find = %+v, %v\nwant what Create returned, %+v", stored, err, grandchild)
	}
	if !grandchild.ExpiresAt.Equal(parent.ExpiresAt) {
		t.Errorf("apikeytest: the key's key expires at %v, want %v", grandchild.ExpiresAt, parent.ExpiresAt)
	}
	if want := []string{parent.ID, child.ID}; !slices.Equal(grandchild.Ancestors, want) {
		t.Errorf("apikeytest: ancestors = %v, want %v", grandchild.Ancestors, want)
	}
}

// memberKeyCreatesNoAdminKey checks that the stored role of the creating key decides, not that of the call.
func memberKeyCreatesNoAdminKey(t *testing.T, w Fixture) {
	org := w.tenant(t)
	parent := org.create(func(k *apikey.Key) { k.Role = apikey.RoleMember })
	if _, err := w.Store.Create(org.as(parent).ctx, newKey()); fault.Code(err) != "role_required" {
		t.Errorf("apikeytest: create an admin key with a member key: %v, want role_required", err)
	}
	org.wantKeys(1)
}

func revokedKeyCreatesNone(t *testing.T, w Fixture) {
	org := w.tenant(t)
	parent := org.create(nil)
	org.revoke(parent.ID)
	if _, err := w.Store.Create(org.as(parent).ctx, newKey()); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("apikeytest: create with a revoked key: %v, want Unauthenticated", err)
	}
	org.wantKeys(0)
}

func revocationIncludesDescendants(t *testing.T, w Fixture) {
	org, other := w.tenant(t), w.tenant(t)
	grandparent, stranger := org.create(nil), org.create(nil)
	parent := org.makeWith(grandparent)
	child := org.makeWith(parent)
	sibling := org.makeWith(grandparent)
	err := w.Store.RevokeWithDescendants(other.ctx, parent.ID)
	if !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("apikeytest: revoke another organization's key: %v, want not found", err)
	}
	before := len(org.entries())
	ctx, entry := org.call()
	if err := w.Store.RevokeWithDescendants(ctx, parent.ID); err != nil {
		t.Fatalf("apikeytest: revoke with descendants: %v", err)
	}
	want := []string{grandparent.ID, sibling.ID, stranger.ID}
	if got := org.live(grandparent, parent, child, sibling, stranger); !slices.Equal(got, want) {
		t.Errorf("apikeytest: live keys = %v, want %v", got, want)
	}
	org.wantKeys(3)
	added := org.entries()[before:]
	if len(added) != 1 || !entry.Written() {
		t.Fatalf("apikeytest: audit entries = %+v, want one", added)
	}
	checkEntry(t, "revoke with descendants", added[0], entry.ID(),
		audit.Target{Type: "api_key", ID: parent.ID, Name: "CI"})
	if want := []audit.Change{{Field: "descendants", Old: child.ID}}; !slices.Equal(added[0].Changes, want) {
		t.Errorf("apikeytest: changes of the audit entry = %+v, want %+v", added[0].Changes, want)
	}
}

// revocationAfterRevocation checks that a key which shook off its ancestors is still found by them.
func revocationAfterRevocation(t *testing.T, w Fixture) {
	org := w.tenant(t)
	leaked := org.create(nil)
	child := org.makeWith(leaked)
	grandchild := org.makeWith(child)
	org.revoke(child.ID)
	org.revoke(leaked.ID)
	if err := w.Store.RevokeWithDescendants(org.ctx, leaked.ID); err != nil {
		t.Errorf("apikeytest: revoke the descendants of a revoked key: %v", err)
	}
	if got := org.live(grandchild); len(got) != 0 {
		t.Errorf("apikeytest: live keys = %v, want none", got)
	}
	err := w.Store.RevokeWithDescendants(org.ctx, leaked.ID)
	if !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("apikeytest: revoke without a key left: %v, want not found", err)
	}
	org.wantKeys(0)
}

// descendantsRace creates keys with a key and with its child while both are revoked.
func descendantsRace(t *testing.T, w Fixture) {
	const rounds = 2
	for range rounds {
		org := w.tenant(t)
		root := org.create(nil)
		child := org.makeWith(root)
		var all sync.WaitGroup
		create := func(ctx context.Context) {
			all.Go(func() {
				_, err := w.Store.Create(ctx, newKey())
				if err != nil && !fault.Is(err, fault.Unauthenticated) {
					t.Errorf("apikeytest: create during a revocation: %v, want success or Unauthenticated", err)
				}
			})
		}
		create(org.as(root).ctx)
		create(org.as(child).ctx)
		all.Go(func() {
			if err := w.Store.RevokeWithDescendants(org.ctx, root.ID); err != nil {
				t.Errorf("apikeytest: revoke with descendants: %v", err)
			}
		})
		create(org.as(child).ctx)
		all.Wait()
		org.wantKeys(0)
	}
}

func repeatedRevocationWithDescendants(t *testing.T, w Fixture) {
	org := w.tenant(t)
	root := org.create(nil)
	org.makeWith(root)
	for _, repeat := range []bool{false, true} {
		ctx, attempt := org.attempt("k", "revoke")
		err := w.Store.RevokeWithDescendants(ctx, root.ID)
		if err != nil || attempt.Replayed() != repeat {
			t.Errorf("apikeytest: revoke: %v, replayed %t; want success, replayed %t", err, attempt.Replayed(), repeat)
		}
	}
	org.wantKeys(0)
}
