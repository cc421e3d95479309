package apikeytest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

// idempotencyTests are the tests of requests with an Idempotency-Key.
func idempotencyTests() map[string]func(*testing.T, Fixture) {
	return map[string]func(*testing.T, Fixture){
		"a repeated creation returns the first key":        repeatedCreation,
		"a repeated revocation succeeds":                   repeatedRevocation,
		"an idempotency key of another request is refused": reusedIdempotencyKey,
		"a refused creation frees its idempotency key":     refusedCreationFreesKey,
		"concurrent repeats create one key":                concurrentRepeats,
	}
}

// attempt makes the context of a request with an idempotency key and a body, and the request's attempt.
func (n tenant) attempt(key, body string) (context.Context, *idempotency.Attempt) {
	a := idempotency.New(n.id, key, idempotency.Request{Method: "POST", Path: "/test", Body: []byte(body)})
	return call.Derive(n.ctx, func(c *call.Call) { c.Attempt = a }), a
}

// call makes the context of an audited request, and its pending entry.
func (n tenant) call() (context.Context, *audit.CallEntry) {
	entry := audit.NewCallEntry()
	return call.Derive(n.ctx, func(c *call.Call) { c.Entry = entry }), entry
}

func repeatedCreation(t *testing.T, w Fixture) {
	org := w.tenant(t)
	ctx, attempt := org.attempt("k", "create")
	k := newKey()
	k.ExpiresAt, k.LastUsedAt = now(), now()
	first, err := w.Store.Create(ctx, k)
	if err != nil || attempt.Replayed() || first.ID != k.ID {
		t.Fatalf("apikeytest: first create = %+v, %v, replayed %t; want the new key %s", first, err, attempt.Replayed(),
			k.ID)
	}
	org.revoke(k.ID) // the stored answer must outlive the key
	ctx, attempt = org.attempt("k", "create")
	got, err := w.Store.Create(ctx, newKey())
	if err != nil || !attempt.Replayed() {
		t.Fatalf("apikeytest: repeated create: %v, replayed %t; want a replay", err, attempt.Replayed())
	}
	if got.Hash != "" {
		t.Errorf("apikeytest: repeated create returned the hash %q, want none", got.Hash)
	}
	if got.Hash = first.Hash; !reflect.DeepEqual(got, first) {
		t.Errorf("apikeytest: repeated create = %+v\nwant %+v", got, first)
	}
	org.wantKeys(0)
	if got := org.auditedActions(); len(got) != 2 {
		t.Errorf("apikeytest: audit entries = %v, want one of the creation and one of the revocation", got)
	}
}

func repeatedRevocation(t *testing.T, w Fixture) {
	org := w.tenant(t)
	k := org.create(nil)
	for _, repeat := range []bool{false, true, true} {
		ctx, attempt := org.attempt("k", "revoke")
		if err := w.Store.Revoke(ctx, k.ID); err != nil || attempt.Replayed() != repeat {
			t.Errorf("apikeytest: revoke: %v, replayed %t; want success, replayed %t", err, attempt.Replayed(), repeat)
		}
	}
	if got := org.countedKeys(); got != 0 {
		t.Errorf("apikeytest: the organization counts %d keys, want 0", got)
	}
	if got := org.auditedActions(); len(got) != 2 {
		t.Errorf("apikeytest: audit entries = %v, want one of the creation and one of the revocation", got)
	}
	ctx, _ := org.attempt("another", "revoke")
	if err := w.Store.Revoke(ctx, k.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("apikeytest: revoke again with another idempotency key: %v, want not found", err)
	}
}

func reusedIdempotencyKey(t *testing.T, w Fixture) {
	org := w.tenant(t)
	k := org.create(nil)
	ctx, _ := org.attempt("k", "one")
	if _, err := w.Store.Create(ctx, newKey()); err != nil {
		t.Fatalf("apikeytest: create a key: %v", err)
	}
	ctx, _ = org.attempt("k", "another")
	_, createErr := w.Store.Create(ctx, newKey())
	ctx, _ = org.attempt("k", "another")
	revokeErr := w.Store.Revoke(ctx, k.ID)
	for call, err := range map[string]error{"create": createErr, "revoke": revokeErr} {
		if !fault.Is(err, fault.Invalid) || fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("apikeytest: %s with a reused idempotency key: %v, want idempotency_key_reused", call, err)
		}
	}
	org.wantKeys(2)
}

func refusedCreationFreesKey(t *testing.T, w Fixture) {
	org := w.tenant(t)
	for range maxKeys {
		org.create(nil)
	}
	createWantsCode := func(want string) {
		t.Helper()
		ctx, attempt := org.attempt("k", "create")
		if _, err := w.Store.Create(ctx, newKey()); fault.Code(err) != want {
			t.Errorf("apikeytest: create: %v, want code %q", err, want)
		}
		if attempt.Replayed() {
			t.Error("apikeytest: create replayed an answer, want a new attempt")
		}
	}
	createWantsCode("api_key_limit_reached")
	createWantsCode("api_key_limit_reached")
	org.revoke(org.listAll(1)[0].ID)
	createWantsCode("")
}

func concurrentRepeats(t *testing.T, w Fixture) {
	const clients = 10
	org := w.tenant(t)
	made, got, errs := make([]apikey.Key, clients), make([]apikey.Key, clients), make([]error, clients)
	var all sync.WaitGroup
	for i := range clients {
		made[i] = newKey()
		all.Go(func() {
			ctx, attempt := org.attempt("k", "create")
			got[i], errs[i] = w.Store.Create(ctx, made[i])
			if errs[i] == nil && attempt.Replayed() == (got[i].ID == made[i].ID) {
				t.Errorf("apikeytest: replayed = %t, but the request's own key was returned: %t", attempt.Replayed(),
					got[i].ID == made[i].ID)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("apikeytest: concurrent creates with one idempotency key: %v", err)
	}
	firsts := 0
	for i, k := range got {
		if k.ID == made[i].ID {
			firsts++
		}
		if !reflect.DeepEqual(k.Show(), got[0].Show()) {
			t.Errorf("apikeytest: two requests got different keys: %+v and %+v", k, got[0])
		}
	}
	if firsts != 1 {
		t.Errorf("apikeytest: %d requests created a key, want 1", firsts)
	}
	if got := org.countedKeys(); got != 1 {
		t.Errorf("apikeytest: the organization counts %d keys, want 1", got)
	}
	if got := org.auditedActions(); len(got) != 1 {
		t.Errorf("apikeytest: audit entries = %v, want one", got)
	}
}
