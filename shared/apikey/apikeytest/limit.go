package apikeytest

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
)

// maxKeys is the limit of live keys on a new organization's plan.
const maxKeys = 50

func createRefusesAboveLimit(t *testing.T, w Fixture) {
	org := w.tenant(t)
	var last apikey.Key
	for range maxKeys {
		last = org.create(nil)
	}
	_, err := w.Store.Create(org.ctx, newKey())
	want := map[string]any{"current": int64(maxKeys), "max": int64(maxKeys)}
	if f := fault.From(err); f == nil || f.Kind != fault.Conflict || f.Code != "api_key_limit_reached" ||
		!reflect.DeepEqual(f.Meta, want) {
		t.Errorf("apikeytest: create above the limit: %v, want api_key_limit_reached with %v", err, want)
	}
	org.revoke(last.ID)
	org.create(nil)
	if got := org.countedKeys(); got != maxKeys {
		t.Errorf("apikeytest: the organization counts %d keys, want %d", got, maxKeys)
	}
}

func concurrentCreatesKeepLimit(t *testing.T, w Fixture) {
	org := w.tenant(t)
	const creators = 8
	for range maxKeys - creators/2 {
		org.create(nil)
	}
	errs := make([]error, creators)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = w.Store.Create(org.ctx, newKey()) })
	}
	all.Wait()
	refused := 0
	for _, err := range errs {
		switch {
		case fault.Code(err) == "api_key_limit_reached":
			refused++
		case err != nil:
			t.Errorf("apikeytest: concurrent create: %v, want success or api_key_limit_reached", err)
		}
	}
	if refused != creators/2 {
		t.Errorf("apikeytest: %d of %d concurrent creates refused, want %d", refused, creators, creators/2)
	}
	org.wantKeys(maxKeys)
}

// createReplacesExpiredKeys checks that expired keys count until a new key needs their place.
func createReplacesExpiredKeys(t *testing.T, w Fixture) {
	org := w.tenant(t)
	for i := range maxKeys {
		org.create(func(k *apikey.Key) {
			switch i % 10 {
			case 0:
				k.ExpiresAt = now().Add(-time.Minute)
			case 1:
				k.ExpiresAt = now().Add(time.Hour)
			}
		})
	}
	if got := org.countedKeys(); got != maxKeys {
		t.Errorf("apikeytest: the organization counts %d keys, want %d, including expired ones", got, maxKeys)
	}
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = w.Store.Create(org.ctx, newKey()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("apikeytest: create in place of expired keys: %v", err)
	}
	if _, err := w.Store.Create(org.ctx, newKey()); fault.Code(err) != "api_key_limit_reached" {
		t.Errorf("apikeytest: create above the limit: %v, want api_key_limit_reached", err)
	}
	org.wantKeys(maxKeys)
}
