package firestore

import (
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/document"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/page"
	"agents.example/controlplane/shared/role"
)

func TestKeys_CreatedKeyIsFound(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	k := org.createKey(func(k *apikey.Key) {
		k.ExpiresAt, k.LastUsedAt = agenttest.Now().Add(time.Hour), agenttest.Now()
		k.Ancestors = []string{"key_1", "key_2"}
	})
	expired := org.createKey(func(k *apikey.Key) { k.Role, k.ExpiresAt = role.Member, agenttest.Now().Add(-time.Hour) })
	for _, want := range []apikey.Key{k, expired} {
		got, _, err := org.keys.Find(t.Context(), want.Hash, document.Ref{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("Find = %+v, %v\nwant %+v", got, err, want)
		}
	}
	v := reflect.ValueOf(k)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("this test does not set the field %s", v.Type().Field(i).Name)
		}
	}
	org.wantUsage(2)
	want := []string{"TestAgent api_key " + k.ID + " succeeded", "TestAgent api_key " + expired.ID + " succeeded"}
	if got := org.auditedActions(); !reflect.DeepEqual(got, want) {
		t.Errorf("audit entries = %v, want %v", got, want)
	}
}

func TestKeys_UnknownKeyIsNotFound(t *testing.T) {
	t.Parallel()
	keys := open(t, "", Options{}).Keys()
	for _, hash := range []string{newKey().Hash, "", "a/b", ".", "__x__", "\xff", strings.Repeat("x", 2000)} {
		_, _, err := keys.Find(t.Context(), hash, document.Ref{})
		if !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
			t.Errorf("find %.20q: %v, want not found", hash, err)
		}
	}
}

func TestKeys_OtherOrganizationsHaveNoAccess(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	owner, other := newKeyTenant(t, c), newKeyTenant(t, c)
	k := owner.createKey(nil)
	for _, id := range []string{k.ID, agenttest.ID(), "", k.Hash} {
		if err := other.keys.Revoke(other.Ctx, id); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
			t.Errorf("revoke another organization's key %q: %v, want not found", id, err)
		}
	}
	if got := other.listKeys(10); len(got) != 0 {
		t.Errorf("another organization lists %d keys, want 0", len(got))
	}
	if _, _, err := other.keys.Find(t.Context(), k.Hash, document.Ref{}); err != nil {
		t.Errorf("find after another organization's revocation: %v", err)
	}
}

func TestKeys_PagesListEachKeyOnce(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	var want []apikey.Key
	for _, seconds := range []int{3, 1, 2, 2, 2, 5} {
		after := time.Duration(seconds) * time.Second
		want = append(want, org.createKey(func(k *apikey.Key) {
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
		if got := org.listKeys(limit); !reflect.DeepEqual(got, want) {
			t.Errorf("pages of %d = %+v\nwant %+v", limit, got, want)
		}
	}
	p, err := org.keys.List(org.Ctx, page.Request{Limit: 2})
	must(t, err)
	if strings.Contains(p.Next, want[1].Hash) {
		t.Errorf("the cursor %q contains the hash of a key", p.Next)
	}
}

func TestKeys_RefuseInvalidCursors(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	for _, bad := range []string{"x", "null", "%", "e30", strings.Repeat("A", 1000)} {
		_, err := org.keys.List(org.Ctx, page.Request{Limit: 1, Cursor: bad})
		if fault.Code(err) != "invalid_cursor" || !fault.Is(err, fault.BadRequest) {
			t.Errorf("list with cursor %.20q: %v, want invalid_cursor", bad, err)
		}
	}
}

func TestKeys_RevokedKeyIsNotFound(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	k := org.createKey(nil)
	org.revokeKey(k.ID)
	if _, _, err := org.keys.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("find a revoked key: %v, want not found", err)
	}
	if err := org.keys.Revoke(org.Ctx, k.ID); !reflect.DeepEqual(fault.From(err), apikey.NotFound()) {
		t.Errorf("revoke a revoked key: %v, want not found", err)
	}
	org.wantUsage(0)
	if got := org.auditedActions(); len(got) != 2 || got[1] != "TestAgent api_key "+k.ID+" succeeded" {
		t.Errorf("audit entries = %v, want one of the creation and one of the revocation", got)
	}
}

func TestKeys_OneConcurrentRevocationSucceeds(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	org.createKey(nil)
	k := org.createKey(nil)
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = org.keys.Revoke(org.Ctx, k.ID) })
	}
	all.Wait()
	succeeded := 0
	for _, err := range errs {
		if err == nil {
			succeeded++
		} else if !fault.Is(err, fault.NotFound) {
			t.Errorf("concurrent revocation: %v, want success or not found", err)
		}
	}
	if succeeded != 1 {
		t.Errorf("%d concurrent revocations succeeded, want 1", succeeded)
	}
	org.wantUsage(1)
}

func TestKeys_TouchRecordsAUseOncePerInterval(t *testing.T) {
	t.Parallel()
	client := open(t, "", Options{})
	org := newKeyTenant(t, client)
	never, long, recent := org.createKey(nil),
		org.createKey(func(k *apikey.Key) { k.LastUsedAt = agenttest.Now().Add(-apikey.TouchInterval) }),
		org.createKey(func(k *apikey.Key) { k.LastUsedAt = agenttest.Now().Add(-apikey.TouchInterval / 2) })
	for _, k := range []apikey.Key{never, long, recent, never} {
		org.keys.Touch(t.Context(), k)
	}
	client.Flush()
	for name, c := range map[string]struct {
		key          apikey.Key
		wantRecorded bool
	}{
		"never used":    {key: never, wantRecorded: true},
		"used long ago": {key: long, wantRecorded: true},
		"just used":     {key: recent, wantRecorded: false},
	} {
		got, _, err := org.keys.Find(t.Context(), c.key.Hash, document.Ref{})
		if err != nil {
			t.Fatalf("find the key %s: %v", name, err)
		}
		recorded := !got.LastUsedAt.Equal(c.key.LastUsedAt)
		if recorded != c.wantRecorded {
			t.Errorf("%s: use recorded = %t, want %t", name, recorded, c.wantRecorded)
		}
		if recorded && agenttest.Now().Sub(got.LastUsedAt) > time.Minute {
			t.Errorf("%s: LastUsedAt = %v, want now", name, got.LastUsedAt)
		}
		if got.LastUsedAt = c.key.LastUsedAt; !reflect.DeepEqual(got, c.key) {
			t.Errorf("%s: touch changed the key to %+v\nwant %+v", name, got, c.key)
		}
	}
}

func TestKeys_TouchDoesNotRestoreARevokedKey(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	org := newKeyTenant(t, c)
	k := org.createKey(nil)
	org.revokeKey(k.ID)
	org.keys.Touch(t.Context(), k)
	c.Flush()
	if _, _, err := org.keys.Find(t.Context(), k.Hash, document.Ref{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("find a revoked key after a touch: %v, want not found", err)
	}
}
