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

// Test holds an apikey.Store and an apikey.Finder to their promises. open makes an empty world.
func Test(t *testing.T, open func(*testing.T) World) {
	tests := map[string]func(*testing.T, World){
		"create and find":        createAndFind,
		"unknown keys":           unknownKeys,
		"tenancy":                tenancy,
		"list":                   list,
		"bad cursors":            badCursors,
		"limit":                  limit,
		"limit in a race":        limitInRace,
		"limit and expired keys": limitAndExpired,
		"revoke":                 revoke,
		"revoke in a race":       revokeRace,
		"touch":                  touch,
		"touch of a revoked key": touchRevoked,
		"the entries of calls":   entriesOfCalls,
		"changes of one call":    changesOfOneCall,
	}
	maps.Copy(tests, idempotencyTests())
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func createAndFind(t *testing.T, w World) {
	org := w.tenant(t)
	k := org.create(func(k *apikey.Key) { k.ExpiresAt, k.LastUsedAt = now().Add(time.Hour), now() })
	expired := org.create(func(k *apikey.Key) { k.ExpiresAt = now().Add(-time.Hour) })
	for _, want := range []apikey.Key{k, expired} {
		_, got, err := w.Finder.Find(t.Context(), want.Hash, document.Ref{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("this test doesn't set the field %s", v.Type().Field(i).Name)
		}
	}
	if got := org.live(); got != 2 {
		t.Errorf("the organization counts %d keys, want 2", got)
	}
	want := []string{"TestKey api_key " + k.ID + " succeeded", "TestKey api_key " + expired.ID + " succeeded"}
	if got := org.audited(); !reflect.DeepEqual(got, want) {
		t.Errorf("audit entries %v, want %v", got, want)
	}
}

func unknownKeys(t *testing.T, w World) {
	for _, hash := range []string{newKey().Hash, "", "a/b", ".", "__x__", "\xff", strings.Repeat("x", 2000)} {
		if _, _, err := w.Finder.Find(t.Context(), hash, document.Ref{}); !reflect.DeepEqual(fault.From(err),
			apikey.NotFound()) {
			t.Errorf("find %.20q: %v, want not found", hash, err)
		}
	}
}

func tenancy(t *testing.T, w World) {
	owner, other := w.tenant(t), w.tenant(t)
	k := owner.create(nil)
	for _, id := range []string{k.ID, random(), "", k.Hash} {
		if err := w.Store.Revoke(other.ctx, id); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
			t.Errorf("revoke another's %q: %v, want not found", id, err)
		}
	}
	if got := other.listAll(10); len(got) != 0 {
		t.Errorf("another organization lists %d keys", len(got))
	}
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); err != nil {
		t.Errorf("the key was revoked by another organization: %v", err)
	}
}

func list(t *testing.T, w World) {
	org := w.tenant(t)
	var want []apikey.Key
	for _, seconds := range []int{3, 1, 2, 2, 2, 5} {
		after := time.Duration(seconds) * time.Second
		want = append(want, org.create(func(k *apikey.Key) { k.CreatedAt = k.CreatedAt.Truncate(time.Hour).Add(after) }))
	}
	slices.SortFunc(want, func(a, b apikey.Key) int {
		if c := b.CreatedAt.Compare(a.CreatedAt); c != 0 {
			return c
		}
		return strings.Compare(b.ID, a.ID)
	})
	for _, limit := range []int{1, 2, 4, 6, 100} {
		if got := org.listAll(limit); !reflect.DeepEqual(got, want) {
			t.Errorf("pages of %d: got %+v\nwant %+v", limit, got, want)
		}
	}
	p, err := w.Store.List(org.ctx, page.Request{Limit: 2})
	if err != nil || strings.Contains(p.Next, want[1].Hash) {
		t.Errorf("the cursor shows the hash of a key (%v)", err)
	}
}

func badCursors(t *testing.T, w World) {
	org := w.tenant(t)
	for _, bad := range []string{"x", "null", "%", "e30", strings.Repeat("A", 1000)} {
		_, err := w.Store.List(org.ctx, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("cursor %.20q: %v, want invalid_cursor", bad, err)
		}
	}
}

func revoke(t *testing.T, w World) {
	org := w.tenant(t)
	k := org.create(nil)
	if err := w.Store.Revoke(org.ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("the revoked key: %v, want not found", err)
	}
	if err := w.Store.Revoke(org.ctx, k.ID); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("a second revocation: %v, want not found", err)
	}
	if got := org.live(); got != 0 {
		t.Errorf("the organization counts %d keys, want 0", got)
	}
	if got := org.audited(); len(got) != 2 || got[1] != "TestKey api_key "+k.ID+" succeeded" {
		t.Errorf("audit entries %v, want that of the creation and one of the revocation", got)
	}
}

func revokeRace(t *testing.T, w World) {
	org := w.tenant(t)
	org.create(nil)
	k := org.create(nil)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = w.Store.Revoke(org.ctx, k.ID) })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else if !fault.Is(err, fault.NotFound) {
			t.Error(err)
		}
	}
	if won != 1 || org.live() != 1 {
		t.Errorf("%d of several revocations succeeded and %d keys are counted, want 1 and 1", won, org.live())
	}
}

func touch(t *testing.T, w World) {
	org := w.tenant(t)
	never, long, recent := org.create(nil),
		org.create(func(k *apikey.Key) { k.LastUsedAt = now().Add(-apikey.TouchInterval) }),
		org.create(func(k *apikey.Key) { k.LastUsedAt = now().Add(-apikey.TouchInterval / 2) })
	for _, k := range []apikey.Key{never, long, recent, never} {
		w.Finder.Touch(t.Context(), k)
	}
	w.Settled()
	for name, c := range map[string]struct {
		key     apikey.Key
		written bool
	}{"never used": {key: never, written: true}, "used long ago": {key: long, written: true},
		"used lately": {key: recent, written: false}} {
		_, got, err := w.Finder.Find(t.Context(), c.key.Hash, document.Ref{})
		if err != nil {
			t.Fatal(err)
		}
		if written := !got.LastUsedAt.Equal(c.key.LastUsedAt); written != c.written || written &&
			now().Sub(got.LastUsedAt) > time.Minute {
			t.Errorf("a key %s was last used at %v", name, got.LastUsedAt)
		}
		if got.LastUsedAt = c.key.LastUsedAt; !reflect.DeepEqual(got, c.key) {
			t.Errorf("a use changed the key:\n got %+v\nwant %+v", got, c.key)
		}
	}
}

func touchRevoked(t *testing.T, w World) {
	org := w.tenant(t)
	k := org.create(nil)
	if err := w.Store.Revoke(org.ctx, k.ID); err != nil {
		t.Fatal(err)
	}
	w.Finder.Touch(t.Context(), k)
	w.Settled()
	if _, _, err := w.Finder.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a use brought the revoked key back: %v", err)
	}
}
