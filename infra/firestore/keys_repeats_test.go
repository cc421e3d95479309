package firestore

import (
	"errors"
	"reflect"
	"sync"
	"testing"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
)

func TestKeys_RepeatedCreationReturnsTheFirstKey(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	ctx, attempt := org.Attempt("k", "create")
	k := newKey()
	k.ExpiresAt, k.LastUsedAt = agenttest.Now(), agenttest.Now()
	first, err := org.keys.Create(ctx, k)
	if err != nil || attempt.Replayed() || first.ID != k.ID {
		t.Fatalf("first create = %+v, %v, replayed %t; want the new key %s", first, err, attempt.Replayed(), k.ID)
	}
	org.revokeKey(k.ID) // the stored answer must outlive the key
	ctx, attempt = org.Attempt("k", "create")
	got, err := org.keys.Create(ctx, newKey())
	if err != nil || !attempt.Replayed() {
		t.Fatalf("repeated create: %v, replayed %t; want a replay", err, attempt.Replayed())
	}
	if got.Hash != "" {
		t.Errorf("repeated create returned the hash %q, want none", got.Hash)
	}
	if got.Hash = first.Hash; !reflect.DeepEqual(got, first) {
		t.Errorf("repeated create = %+v\nwant %+v", got, first)
	}
	org.wantKeys(0)
	if got := org.auditedActions(); len(got) != 2 {
		t.Errorf("audit entries = %v, want one of the creation and one of the revocation", got)
	}
}

func TestKeys_RepeatedRevocationSucceeds(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	k := org.createKey(nil)
	for _, repeat := range []bool{false, true, true} {
		ctx, attempt := org.Attempt("k", "revoke")
		if err := org.keys.Revoke(ctx, k.ID); err != nil || attempt.Replayed() != repeat {
			t.Errorf("revoke: %v, replayed %t; want success, replayed %t", err, attempt.Replayed(), repeat)
		}
	}
	org.wantUsage(0)
	if got := org.auditedActions(); len(got) != 2 {
		t.Errorf("audit entries = %v, want one of the creation and one of the revocation", got)
	}
	ctx, _ := org.Attempt("another", "revoke")
	if err := org.keys.Revoke(ctx, k.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("revoke again with another idempotency key: %v, want not found", err)
	}
}

func TestKeys_RefuseAnIdempotencyKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	k := org.createKey(nil)
	ctx, _ := org.Attempt("k", "one")
	_, err := org.keys.Create(ctx, newKey())
	must(t, err)
	ctx, _ = org.Attempt("k", "another")
	_, createErr := org.keys.Create(ctx, newKey())
	ctx, _ = org.Attempt("k", "another")
	revokeErr := org.keys.Revoke(ctx, k.ID)
	for call, err := range map[string]error{"create": createErr, "revoke": revokeErr} {
		if !fault.Is(err, fault.Invalid) || fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("%s with a reused idempotency key: %v, want idempotency_key_reused", call, err)
		}
	}
	org.wantKeys(2)
}

func TestKeys_RefusedCreationFreesItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	for range maxKeys {
		org.createKey(nil)
	}
	createWantsCode := func(want string) {
		t.Helper()
		ctx, attempt := org.Attempt("k", "create")
		if _, err := org.keys.Create(ctx, newKey()); fault.Code(err) != want {
			t.Errorf("create: %v, want code %q", err, want)
		}
		if attempt.Replayed() {
			t.Error("create replayed an answer, want a new attempt")
		}
	}
	createWantsCode("api_key_limit_reached")
	createWantsCode("api_key_limit_reached")
	org.revokeKey(org.listKeys(1)[0].ID)
	createWantsCode("")
}

func TestKeys_ConcurrentRepeatsCreateOneKey(t *testing.T) {
	t.Parallel()
	const clients = 10
	org := newKeyTenant(t, open(t, "", Options{}))
	made, got, errs := make([]apikey.Key, clients), make([]apikey.Key, clients), make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		made[i] = newKey()
		all.Go(func() {
			ctx, attempt := org.Attempt("k", "create")
			got[i], errs[i] = org.keys.Create(ctx, made[i])
			if errs[i] == nil && attempt.Replayed() == (got[i].ID == made[i].ID) {
				t.Errorf("replayed = %t, but the request's own key was returned: %t", attempt.Replayed(),
					got[i].ID == made[i].ID)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("concurrent creates with one idempotency key: %v", err)
	}
	firsts := 0
	for i, k := range got {
		if k.ID == made[i].ID {
			firsts++
		}
		if !reflect.DeepEqual(k.Show(), got[0].Show()) {
			t.Errorf("two requests got different keys: %+v and %+v", k, got[0])
		}
	}
	if firsts != 1 {
		t.Errorf("%d requests created a key, want 1", firsts)
	}
	org.wantUsage(1)
	if got := org.auditedActions(); len(got) != 1 {
		t.Errorf("audit entries = %v, want one", got)
	}
}
