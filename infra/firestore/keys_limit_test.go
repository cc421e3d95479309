package firestore

import (
	"errors"
	"reflect"
	"sync"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/fault"
)

// maxKeys is the limit of live keys on a new organization's plan.
const maxKeys = 50

func TestKeys_RefuseCreationAboveTheLimit(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	var last apikey.Key
	for range maxKeys {
		last = org.createKey(nil)
	}
	_, err := org.keys.Create(org.Ctx, newKey())
	want := map[string]any{"current": int64(maxKeys), "max": int64(maxKeys)}
	if f := fault.From(err); f == nil || f.Kind != fault.Conflict || f.Code != "api_key_limit_reached" ||
		!reflect.DeepEqual(f.Meta, want) {
		t.Errorf("create above the limit: %v, want api_key_limit_reached with %v", err, want)
	}
	org.revokeKey(last.ID)
	org.createKey(nil)
	org.wantUsage(maxKeys)
}

func TestKeys_ConcurrentCreationsKeepTheLimit(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	const creators = 8
	for range maxKeys - creators/2 {
		org.createKey(nil)
	}
	errs := make([]error, creators)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = org.keys.Create(org.Ctx, newKey()) })
	}
	all.Wait()
	refused := 0
	for _, err := range errs {
		switch {
		case fault.Code(err) == "api_key_limit_reached":
			refused++
		case err != nil:
			t.Errorf("concurrent create: %v, want success or api_key_limit_reached", err)
		}
	}
	if refused != creators/2 {
		t.Errorf("%d of %d concurrent creates refused, want %d", refused, creators, creators/2)
	}
	org.wantKeys(maxKeys)
}

// TestKeys_CreationReplacesExpiredKeysAtTheLimit checks that expired keys count until a new key needs their place.
func TestKeys_CreationReplacesExpiredKeysAtTheLimit(t *testing.T) {
	t.Parallel()
	org := newKeyTenant(t, open(t, "", Options{}))
	for i := range maxKeys {
		org.createKey(func(k *apikey.Key) {
			switch i % 10 {
			case 0:
				k.ExpiresAt = agenttest.Now().Add(-time.Minute)
			case 1:
				k.ExpiresAt = agenttest.Now().Add(time.Hour)
			}
		})
	}
	org.wantUsage(maxKeys)
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = org.keys.Create(org.Ctx, newKey()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("create in place of expired keys: %v", err)
	}
	if _, err := org.keys.Create(org.Ctx, newKey()); fault.Code(err) != "api_key_limit_reached" {
		t.Errorf("create above the limit: %v, want api_key_limit_reached", err)
	}
	org.wantKeys(maxKeys)
}
