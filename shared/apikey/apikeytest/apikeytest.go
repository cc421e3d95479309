package apikeytest

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
)

// Test tests that an apikey.Store and an apikey.Finder keep their contracts. open makes an empty fixture.
func Test(t *testing.T, open func(*testing.T) Fixture) {
	tests := map[string]func(*testing.T, Fixture){
		"a created key is found":                     createdKeyIsFound,
		"unknown keys are not found":                 unknownKeysAreNotFound,
		"other organizations see and revoke no keys": otherOrganizationsHaveNoAccess,
		"pages list every key once, newest first":    pagesListEveryKey,
		"invalid cursors are refused":                invalidCursors,
		"create refuses keys above the limit":        createRefusesAboveLimit,
		"concurrent creates keep the limit":          concurrentCreatesKeepLimit,
		"create replaces expired keys at the limit":  createReplacesExpiredKeys,
		"a revoked key is not found":                 revokedKeyIsNotFound,
		"only one concurrent revocation succeeds":    concurrentRevocations,
		"touch records a use once per interval":      touchRecordsUse,
		"touch does not restore a revoked key":       touchOfRevokedKey,
		"each committed change has an audit entry":   changesWriteAuditEntries,
		"two changes of one call share an entry":     changesOfOneCallShareEntry,
	}
	maps.Copy(tests, idempotencyTests())
	maps.Copy(tests, descentTests())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func createdKeyIsFound(t *testing.T, w Fixture) {
	org := w.tenant(t)
	k := org.create(func(k *apikey.Key) {
		k.ExpiresAt, k.LastUsedAt, k.Ancestors = now().Add(time.Hour), now(), []string{"key_1", "key_2"}
	})
	expired := org.create(func(k *apikey.Key) { k.Role, k.ExpiresAt = apikey.RoleMember, now().Add(-time.Hour) })
	for _, want := range []apikey.Key{k, expired} {
		got, _, err := w.Finder.Find(t.Context(), want.Hash, document.Ref{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("apikeytest: Find = %+v, %v\nwant %+v", got, err, want)
		}
	}
	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("apikeytest: this test does not set the field %s", v.Type().Field(i).Name)
		}
	}
	if got := org.countedKeys(); got != 2 {
		t.Errorf("apikeytest: the organization counts %d keys, want 2", got)
	}
	want := []string{"TestKey api_key " + k.ID + " succeeded", "TestKey api_key " + expired.ID + " succeeded"}
	if got := org.auditedActions(); !reflect.DeepEqual(got, want) {
		t.Errorf("apikeytest: audit entries = %v, want %v", got, want)
	}
}

func unknownKeysAreNotFound(t *testing.T, w Fixture) {
	for _, hash := range []string{newKey().Hash, "", "a/b", ".", "__x__", "\xff", strings.Repeat("x", 2000)} {
		if _, _, err := w.Finder.Find(t.Context(), hash, document.Ref{}); !reflect.DeepEqual(fault.From(err),
			apikey.NotFound()) {
			t.Errorf("apikeytest: find %.20q: %v, want not found", hash, err)
		}
	}
}

func otherOrganizationsHaveNoAccess(t *testing.T, w Fixture) {
	owner, other := w.tenant(t), w.tenant(t)
	k := owner.create(nil)
	for _, id := range []string{k.ID, random(), "", k.Hash} {
		if err := w.Store.Revoke(other.ctx, id); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
			t.Errorf("apikeytest: revoke another organization's key %q: %v, want not found", id, err)
		}
	}
	if got := other.listAll(10); len(got) != 0 {
		t.Errorf("apikeytest: another organization lists %d keys, want 0", len(got))
	}
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); err != nil {
		t.Errorf("apikeytest: find after another organization's revocation: %v", err)
	}
}

func pagesListEveryKey(t *testing.T, w Fixture) {
	org := w.tenant(t)
	var want []apikey.Key
	for _, seconds := range []int{3, 1, 2, 2, 2, 5} {
		after := time.Duration(seconds) * time.Second
		want = append(want, org.create(func(k *apikey.Key) {
			k.CreatedAt = k.CreatedAt.Truncate(time.Hour).Add(after)
		}))
	}
	slices.SortFunc(want, func(a, b apikey.Key) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	for _, limit := range []int{1, 2, 4, 6, 100} {
		if got := org.listAll(limit); !reflect.DeepEqual(got, want) {
			t.Errorf("apikeytest: pages of %d = %+v\nwant %+v", limit, got, want)
		}
	}
	p, err := w.Store.List(org.ctx, page.Request{Limit: 2})
	if err != nil {
		t.Fatalf("apikeytest: list keys: %v", err)
	}
	if strings.Contains(p.Next, want[1].Hash) {
		t.Errorf("apikeytest: the cursor %q contains the hash of a key", p.Next)
	}
}

func invalidCursors(t *testing.T, w Fixture) {
	org := w.tenant(t)
	for _, bad := range []string{"x", "null", "%", "e30", strings.Repeat("A", 1000)} {
		_, err := w.Store.List(org.ctx, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("apikeytest: list with cursor %.20q: %v, want invalid_cursor", bad, err)
		}
	}
}

func revokedKeyIsNotFound(t *testing.T, w Fixture) {
	org := w.tenant(t)
	k := org.create(nil)
	org.revoke(k.ID)
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("apikeytest: find a revoked key: %v, want not found", err)
	}
	if err := w.Store.Revoke(org.ctx, k.ID); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("apikeytest: revoke a revoked key: %v, want not found", err)
	}
	if got := org.countedKeys(); got != 0 {
		t.Errorf("apikeytest: the organization counts %d keys, want 0", got)
	}
	if got := org.auditedActions(); len(got) != 2 || got[1] != "TestKey api_key "+k.ID+" succeeded" {
		t.Errorf("apikeytest: audit entries = %v, want one of the creation and one of the revocation", got)
	}
}

func concurrentRevocations(t *testing.T, w Fixture) {
	org := w.tenant(t)
	org.create(nil)
	k := org.create(nil)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Store.Revoke(org.ctx, k.ID) })
	}
	all.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		} else if !fault.Is(err, fault.NotFound) {
			t.Errorf("apikeytest: concurrent revocation: %v, want success or not found", err)
		}
	}
	if succeeded != 1 {
		t.Errorf("apikeytest: %d concurrent revocations succeeded, want 1", succeeded)
	}
	if got := org.countedKeys(); got != 1 {
		t.Errorf("apikeytest: the organization counts %d keys, want 1", got)
	}
}

func touchRecordsUse(t *testing.T, w Fixture) {
	org := w.tenant(t)
	never, long, recent := org.create(nil),
		org.create(func(k *apikey.Key) { k.LastUsedAt = now().Add(-apikey.TouchInterval) }),
		org.create(func(k *apikey.Key) { k.LastUsedAt = now().Add(-apikey.TouchInterval / 2) })
	for _, k := range []apikey.Key{never, long, recent, never} {
		w.Finder.Touch(t.Context(), k)
	}
	w.Flush()
	for name, c := range map[string]struct {
		key          apikey.Key
		wantRecorded bool
	}{
		"never used":    {key: never, wantRecorded: true},
		"used long ago": {key: long, wantRecorded: true},
		"just used":     {key: recent, wantRecorded: false},
	} {
		got, _, err := w.Finder.Find(t.Context(), c.key.Hash, document.Ref{})
		if err != nil {
			t.Fatalf("apikeytest: find the key %s: %v", name, err)
		}
		recorded := !got.LastUsedAt.Equal(c.key.LastUsedAt)
		if recorded != c.wantRecorded {
			t.Errorf("apikeytest: %s: use recorded = %t, want %t", name, recorded, c.wantRecorded)
		}
		if recorded && now().Sub(got.LastUsedAt) > time.Minute {
			t.Errorf("apikeytest: %s: LastUsedAt = %v, want now", name, got.LastUsedAt)
		}
		if got.LastUsedAt = c.key.LastUsedAt; !reflect.DeepEqual(got, c.key) {
			t.Errorf("apikeytest: %s: touch changed the key to %+v\nwant %+v", name, got, c.key)
		}
	}
}

func touchOfRevokedKey(t *testing.T, w Fixture) {
	org := w.tenant(t)
	k := org.create(nil)
	org.revoke(k.ID)
	w.Finder.Touch(t.Context(), k)
	w.Flush()
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("apikeytest: find a revoked key after a touch: %v, want not found", err)
	}
}
