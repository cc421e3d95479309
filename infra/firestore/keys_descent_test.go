package firestore

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/role"
)

func TestKeys_ChildIsBoundedByItsParent(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	parent := org.createKey(func(k *apikey.Key) { k.ExpiresAt = agenttest.Now().Add(time.Hour) })
	child := org.createKeyWith(parent)
	grandchild := org.createKeyWith(child)
	stored, _, err := org.keys.Find(t.Context(), grandchild.Hash, document.Ref{})
	if err != nil || !reflect.DeepEqual(stored, grandchild) {
		t.Errorf("Find = %+v, %v\nwant what Create returned, %+v", stored, err, grandchild)
	}
	if !grandchild.ExpiresAt.Equal(parent.ExpiresAt) {
		t.Errorf("the key's key expires at %v, want %v", grandchild.ExpiresAt, parent.ExpiresAt)
	}
	if want := []string{parent.ID, child.ID}; !slices.Equal(grandchild.Ancestors, want) {
		t.Errorf("ancestors = %v, want %v", grandchild.Ancestors, want)
	}
}

// TestKeys_MemberKeyCreatesNoAdminKey checks that the stored role of the creating key decides, not that of the call.
func TestKeys_MemberKeyCreatesNoAdminKey(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	parent := org.createKey(func(k *apikey.Key) { k.Role = role.Member })
	if _, err := org.keys.Create(asKey(org.Ctx, parent), newKey()); fault.Code(err) != "role_required" {
		t.Errorf("create an admin key with a member key: %v, want role_required", err)
	}
	org.wantKeys(1)
}

func TestKeys_RevokedKeyCreatesNone(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	parent := org.createKey(nil)
	org.revokeKey(parent.ID)
	if _, err := org.keys.Create(asKey(org.Ctx, parent), newKey()); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("create with a revoked key: %v, want Unauthenticated", err)
	}
	org.wantKeys(0)
}

func TestKeys_RevocationIncludesDescendants(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org, other := newKeyTenant(t, c), newKeyTenant(t, c)
	grandparent, stranger := org.createKey(nil), org.createKey(nil)
	parent := org.createKeyWith(grandparent)
	child := org.createKeyWith(parent)
	sibling := org.createKeyWith(grandparent)
	err := other.keys.RevokeWithDescendants(other.Ctx, parent.ID)
	if !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("revoke another organization's key: %v, want not found", err)
	}
	before := len(org.Entries())
	ctx, entry := org.Call()
	must(t, org.keys.RevokeWithDescendants(ctx, parent.ID))
	want := []string{grandparent.ID, sibling.ID, stranger.ID}
	if got := org.live(grandparent, parent, child, sibling, stranger); !slices.Equal(got, want) {
		t.Errorf("live keys = %v, want %v", got, want)
	}
	org.wantKeys(3)
	added := org.Entries()[before:]
	if len(added) != 1 || !entry.Written() {
		t.Fatalf("audit entries = %+v, want one", added)
	}
	checkEntry(t, "revoke with descendants", added[0], entry.ID(),
		audit.Target{Type: "api_key", ID: parent.ID, Name: "CI"})
	if want := []audit.Change{{Field: "descendants", Old: child.ID}}; !slices.Equal(added[0].Changes, want) {
		t.Errorf("changes of the audit entry = %+v, want %+v", added[0].Changes, want)
	}
}

// TestKeys_UnreadableKeysAreRevokedWithTheOthers: after a roll-back, an organization has keys that this release cannot
// decode, one of them a descendant of the key that leaked.
func TestKeys_UnreadableKeysAreRevokedWithTheOthers(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := newKeyTenant(t, c)
	leaked, unreadable := org.createKey(nil), org.createKey(nil)
	child := org.createKeyWith(leaked)
	grandchild := org.createKeyWith(child)
	for _, k := range []apikey.Key{unreadable, child} {
		ref, _ := c.ref(keyCollection, k.Hash)
		_, err := ref.Update(t.Context(), []gcp.Update{{Path: "created_at", Value: "of a later release"}})
		must(t, err)
	}
	must(t, org.keys.RevokeWithDescendants(org.Ctx, leaked.ID))
	if got := org.live(leaked, grandchild); len(got) != 0 {
		t.Errorf("live keys = %v, want none", got)
	}
	if got := org.Usage().APIKeys; got != 1 {
		t.Errorf("the organization has %d keys, want the one that was not revoked", got)
	}
}

// A key whose ancestors are revoked is still found by them.
func TestKeys_DescendantsOfARevokedKeyCanBeRevoked(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	leaked := org.createKey(nil)
	child := org.createKeyWith(leaked)
	grandchild := org.createKeyWith(child)
	org.revokeKey(child.ID)
	org.revokeKey(leaked.ID)
	if err := org.keys.RevokeWithDescendants(org.Ctx, leaked.ID); err != nil {
		t.Errorf("revoke the descendants of a revoked key: %v", err)
	}
	if got := org.live(grandchild); len(got) != 0 {
		t.Errorf("live keys = %v, want none", got)
	}
	err := org.keys.RevokeWithDescendants(org.Ctx, leaked.ID)
	if !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("revoke without a key left: %v, want not found", err)
	}
	org.wantKeys(0)
}

// TestKeys_NoDescendantSurvivesConcurrentRevocations creates keys with a key and with its child while both are revoked.
func TestKeys_NoDescendantSurvivesConcurrentRevocations(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	const rounds = 2
	for range rounds {
		org := newKeyTenant(t, c)
		root := org.createKey(nil)
		child := org.createKeyWith(root)
		var all sync.WaitGroup
		create := func(ctx context.Context) {
			all.Go(func() {
				_, err := org.keys.Create(ctx, newKey())
				if err != nil && !fault.Is(err, fault.Unauthenticated) {
					t.Errorf("create during a revocation: %v, want success or Unauthenticated", err)
				}
			})
		}
		create(asKey(org.Ctx, root))
		create(asKey(org.Ctx, child))
		all.Go(func() {
			if err := org.keys.RevokeWithDescendants(org.Ctx, root.ID); err != nil {
				t.Errorf("revoke with descendants: %v", err)
			}
		})
		create(asKey(org.Ctx, child))
		all.Wait()
		org.wantKeys(0)
	}
}

func TestKeys_RepeatedRevocationWithDescendantsSucceeds(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	root := org.createKey(nil)
	org.createKeyWith(root)
	for _, repeat := range []bool{false, true} {
		ctx, attempt := org.Attempt("k", "revoke")
		err := org.keys.RevokeWithDescendants(ctx, root.ID)
		if err != nil || attempt.Replayed() != repeat {
			t.Errorf("revoke: %v, replayed %t; want success, replayed %t", err, attempt.Replayed(), repeat)
		}
	}
	org.wantKeys(0)
}

// TestKeys_NoDescendantSurvivesARevocationInBetween runs a creation with a key and the revocation of that key with its
// descendants, one between the reads and the commit of the other.
func TestKeys_NoDescendantSurvivesARevocationInBetween(t *testing.T) {
	t.Parallel()
	type operation func(ctx context.Context, keys *Keys, x tenantFixture) error
	create := func(ctx context.Context, keys *Keys, x tenantFixture) error {
		_, err := keys.Create(asKey(ctx, x.key), newKey())
		return err
	}
	revoke := func(ctx context.Context, keys *Keys, x tenantFixture) error { return keys.Revoke(ctx, x.key.ID) }
	revokeAll := func(ctx context.Context, keys *Keys, x tenantFixture) error {
		return keys.RevokeWithDescendants(ctx, x.key.ID)
	}
	for name, c := range map[string]struct {
		slow, inBetween operation
		refused         bool
	}{
		"creation in a revocation with descendants": {slow: revokeAll, inBetween: create},
		"revocation with descendants in a creation": {slow: create, inBetween: revokeAll, refused: true},
		"revocation in a creation":                  {slow: create, inBetween: revoke, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := open(t, "", Options{})
			x := newTenantFixture(t, plain)
			slow := open(t, plain.project(), Options{DialOptions: beforeFirstCommit(func() {
				must(t, c.inBetween(x.org.Ctx, plain.Keys(), x))
			})})
			err := c.slow(x.org.Ctx, slow.Keys(), x)
			if refused := fault.Is(err, fault.Unauthenticated); refused != c.refused || err != nil && !refused {
				t.Errorf("error = %v, want Unauthenticated: %t", err, c.refused)
			}
			left, err := plain.Keys().List(x.org.Ctx, page.Request{})
			must(t, err)
			if len(left.Items) != 0 {
				t.Errorf("%d keys are left, want 0", len(left.Items))
			}
			o, err := plain.Directory().Organization(x.org.Ctx, x.org.ID)
			must(t, err)
			if o.Usage.APIKeys != 0 {
				t.Errorf("the organization counts %d keys, want 0", o.Usage.APIKeys)
			}
		})
	}
}

// asSession makes the context of a request with a session whose token was issued at a time.
func asSession(ctx context.Context, subject string, issuedAt time.Time) context.Context {
	caller := call.From(ctx).Caller
	caller.Type, caller.Subject, caller.IssuedAt = identity.Session, subject, issuedAt
	return call.As(ctx, caller)
}

// TestKeys_SessionThatEndsDuringTheCallCreatesNone ends a user's sessions right before the commit of a key.
func TestKeys_SessionThatEndsDuringTheCallCreatesNone(t *testing.T) {
	t.Parallel()
	project, subject := "test-"+agenttest.ID(), "sub-"+agenttest.ID()
	other := open(t, project, Options{})
	org := newKeyTenant(t, other)
	u := organization.User{ID: "user_" + agenttest.ID(), Subject: subject}
	_, err := other.Directory().Ensure(t.Context(), org.ID, u)
	must(t, err)
	ends := 0
	c := open(t, project, Options{Observe: func(method string) {
		if strings.HasSuffix(method, "/Commit") && ends == 0 {
			ends++
			if err := other.Members().EndSessions(t.Context(), org.ID, subject, true); err != nil {
				t.Error(err)
			}
		}
	}})
	ctx, _ := org.Call()
	_, err = c.Keys().Create(asSession(ctx, subject, time.Now().Add(-time.Minute)), newKey())
	if !fault.Is(err, fault.Unauthenticated) || ends != 1 {
		t.Errorf("create with a session that ends, after %d ends: %v, want Unauthenticated", ends, err)
	}
	org.wantKeys(0)
}

// A process goes by what it read about the end of a user's sessions for some seconds. A key that the user creates in
// them would outlive their rights.
func TestKeys_EndedSessionCreatesNone(t *testing.T) {
	t.Parallel()
	clock, project := agenttest.Now(), "test-"+agenttest.ID()
	c := open(t, project, Options{Now: func() time.Time { return clock }})
	other := open(t, project, Options{Now: func() time.Time { return clock }})
	org := newKeyTenant(t, c)
	u := organization.User{ID: "user_" + agenttest.ID(), Subject: "sub-" + agenttest.ID()}
	_, err := c.Directory().Ensure(t.Context(), org.ID, u)
	must(t, err)
	ctx, _ := org.Call()
	_, err = org.keys.Create(asSession(ctx, u.Subject, clock), newKey())
	must(t, err)
	issued := clock
	clock = clock.Add(time.Second)
	must(t, other.Members().EndSessions(t.Context(), org.ID, u.Subject, true))
	known, err := c.Directory().Ensure(t.Context(), org.ID, u)
	if must(t, err); !known.IsZero() {
		t.Fatalf("the process knows of the end at %v, want a process that does not", known)
	}
	ctx, _ = org.Call()
	if _, err = org.keys.Create(asSession(ctx, u.Subject, issued), newKey()); !fault.Is(err, fault.Unauthenticated) {
		t.Errorf("create with a session that was ended: %v, want Unauthenticated", err)
	}
	org.wantKeys(1)
	ctx, _ = org.Call()
	_, err = org.keys.Create(asSession(ctx, u.Subject, clock.Add(time.Second)), newKey())
	must(t, err)
	org.wantKeys(2)
}
