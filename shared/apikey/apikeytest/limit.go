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

// most is the limit of live keys on a new organization's plan.
const most = 50

func limit(t *testing.T, w World) {
	org := w.tenant(t)
	var last apikey.Key
	for range most {
		last = org.create(nil)
	}
	_, err := w.Store.Create(org.ctx, newKey())
	want := map[string]any{"current": int64(most), "max": int64(most)}
	if f := fault.From(err); f == nil || f.Kind != fault.Conflict || f.Code != "api_key_limit_reached" ||
		!reflect.DeepEqual(f.Meta, want) {
		t.Errorf("a key too many: %v, want api_key_limit_reached with %v", err, want)
	}
	if err := w.Store.Revoke(org.ctx, last.ID); err != nil {
		t.Fatal(err)
	}
	org.create(nil)
	if got := org.live(); got != most {
		t.Errorf("the organization counts %d keys, want %d", got, most)
	}
}

func limitInRace(t *testing.T, w World) {
	org := w.tenant(t)
	const creators = 8
	for range most - creators/2 {
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
			t.Error(err)
		}
	}
	if refused != creators/2 || org.live() != most || len(org.listAll(100)) != most {
		t.Errorf("%d of %d refused, %d counted, %d there; want half, %d and %d", refused, creators, org.live(),
			len(org.listAll(100)), most, most)
	}
}

func limitAndExpired(t *testing.T, w World) {
	org := w.tenant(t)
	for i := range most {
		org.create(func(k *apikey.Key) {
			switch i % 10 {
			case 0:
				k.ExpiresAt = now().Add(-time.Minute)
			case 1:
				k.ExpiresAt = now().Add(time.Hour)
			}
		})
	}
	if got := org.live(); got != most {
		t.Errorf("the organization counts %d keys, want %d: expired ones count until they are needed", got, most)
	}
	errs := make([]error, 5)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = w.Store.Create(org.ctx, newKey()) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("create in place of expired keys: %v", err)
	}
	if _, err := w.Store.Create(org.ctx, newKey()); fault.Code(err) != "api_key_limit_reached" {
		t.Errorf("a key too many: %v, want api_key_limit_reached", err)
	}
	if there := org.listAll(100); org.live() != most || len(there) != most {
		t.Errorf("%d keys counted and %d there, want %d", org.live(), len(there), most)
	}
}
