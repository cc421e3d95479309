package apikeytest

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/idempotency"
)

// idempotencyTests are the promises to requests with an Idempotency-Key.
func idempotencyTests() map[string]func(*testing.T, World) {
	return map[string]func(*testing.T, World){
		"a repeated creation":              repeatedCreation,
		"a repeated revocation":            repeatedRevocation,
		"a key of another request":         reusedKey,
		"a refused creation frees its key": refusedCreation,
		"a race for a key":                 raceForKey,
	}
}

// attempt makes the context of a request with a key, and its attempt. what stands for all that makes it another
// request.
func (n tenant) attempt(key, what string) (context.Context, *idempotency.Attempt) {
	a := idempotency.New(n.id, key, idempotency.Request{Method: "POST", Path: "/test", Body: []byte(what)})
	return idempotency.With(n.ctx, a), a
}

func repeatedCreation(t *testing.T, w World) {
	org := w.tenant(t)
	ctx, attempt := org.attempt("k", "create")
	k := newKey()
	k.ExpiresAt, k.LastUsedAt = now(), now()
	first, err := w.Store.Create(ctx, k)
	if err != nil || attempt.Replayed() || first.ID != k.ID {
		t.Fatalf("the first request: replayed %t, %+v, %v", attempt.Replayed(), first, err)
	}
	if err := w.Store.Revoke(org.ctx, k.ID); err != nil { // the answer outlives what it tells of
		t.Fatal(err)
	}
	ctx, attempt = org.attempt("k", "create")
	got, err := w.Store.Create(ctx, newKey())
	if err != nil || !attempt.Replayed() || got.Hash != "" {
		t.Fatalf("the repeat: replayed %t, hash %q, %v", attempt.Replayed(), got.Hash, err)
	}
	if got.Hash = first.Hash; !reflect.DeepEqual(got, first) {
		t.Errorf("the repeat got another record:\n got %+v\nwant %+v", got, first)
	}
	if there := org.listAll(10); len(there) != 0 || org.live() != 0 || len(org.audited()) != 2 {
		t.Errorf("%d keys, %d counted, audit entries %v; want the creation and the revocation", len(there), org.live(),
			org.audited())
	}
}

func repeatedRevocation(t *testing.T, w World) {
	org := w.tenant(t)
	k := org.create(nil)
	for _, repeat := range []bool{false, true, true} {
		ctx, attempt := org.attempt("k", "revoke")
		if err := w.Store.Revoke(ctx, k.ID); err != nil || attempt.Replayed() != repeat {
			t.Errorf("replayed %t, %v; want a success, replayed %t", attempt.Replayed(), err, repeat)
		}
	}
	if org.live() != 0 || len(org.audited()) != 2 {
		t.Errorf("%d keys counted, audit entries %v", org.live(), org.audited())
	}
	ctx, _ := org.attempt("another", "revoke")
	if err := w.Store.Revoke(ctx, k.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("another request: %v, want not found", err)
	}
}

func reusedKey(t *testing.T, w World) {
	org := w.tenant(t)
	k := org.create(nil)
	ctx, _ := org.attempt("k", "one")
	if _, err := w.Store.Create(ctx, newKey()); err != nil {
		t.Fatal(err)
	}
	ctx, _ = org.attempt("k", "another")
	_, created := w.Store.Create(ctx, newKey())
	ctx, _ = org.attempt("k", "another")
	revoked := w.Store.Revoke(ctx, k.ID)
	for _, err := range []error{created, revoked} {
		if !fault.Is(err, fault.Invalid) || fault.Code(err) != "idempotency_key_reused" {
			t.Errorf("%v, want idempotency_key_reused", err)
		}
	}
	if there := org.listAll(10); len(there) != 2 || org.live() != 2 {
		t.Errorf("%d keys, %d counted; want two", len(there), org.live())
	}
}

func refusedCreation(t *testing.T, w World) {
	org := w.tenant(t)
	for range most {
		org.create(nil)
	}
	try := func(want string) {
		t.Helper()
		ctx, attempt := org.attempt("k", "create")
		if _, err := w.Store.Create(ctx, newKey()); fault.Code(err) != want || attempt.Replayed() {
			t.Errorf("replayed %t, %v; want %q", attempt.Replayed(), err, want)
		}
	}
	try("api_key_limit_reached")
	try("api_key_limit_reached")
	if err := w.Store.Revoke(org.ctx, org.listAll(1)[0].ID); err != nil {
		t.Fatal(err)
	}
	try("")
}

func raceForKey(t *testing.T, w World) {
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
				t.Errorf("replayed %t, and the record is the own one: %t", attempt.Replayed(), got[i].ID == made[i].ID)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	firsts := 0
	for i, k := range got {
		if k.ID == made[i].ID {
			firsts++
		}
		if !reflect.DeepEqual(k.Show(), got[0].Show()) {
			t.Errorf("one got %+v, another %+v", k, got[0])
		}
	}
	if firsts != 1 || org.live() != 1 || len(org.audited()) != 1 {
		t.Errorf("%d were the first, %d keys are counted, audit entries %v", firsts, org.live(), org.audited())
	}
}
