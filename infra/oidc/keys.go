package oidc

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// fetchInterval is the minimum time between two fetches once some keys are known. A flood of tokens with made-up
	// key ids costs the issuer two requests an interval. A rotated key is mostly known immediately, at the latest
	// after one interval.
	fetchInterval = 30 * time.Second
	// firstInterval is the minimum time between two fetches while no key is known. It is shorter because no user can
	// sign in until a fetch succeeds.
	firstInterval = time.Second
	// maxAge is when known keys are fetched again, so that a withdrawn key does not stay valid.
	maxAge = time.Hour
)

var (
	// errUndecided means that no key of the issuer is known, so a token can be neither accepted nor refused.
	errUndecided  = errors.New("no key of the issuer is known")
	errUnknownKey = errors.New("kid: the issuer does not publish this key")
	errTooSoon    = errors.New("the last fetch of the keys is too recent")
)

// key is one of the issuer's keys. Its pointer stays the same while the issuer publishes it.
type key struct {
	id     string
	public *rsa.PublicKey
}

// keySet caches the keys that an issuer publishes. Cached keys stay valid while the issuer is unreachable.
type keySet struct {
	source  *source
	now     func() time.Time
	flight  singleflight.Group
	current atomic.Pointer[published]
	// next is the earliest time of the next fetch, in nanoseconds since 1970.
	next atomic.Int64
}

// published is the issuer's answer at one time. It is immutable.
type published struct {
	keys    map[string]*key
	fetched time.Time
}

func newKeySet(s settings) *keySet {
	return &keySet{source: newSource(s.Issuer, s.HTTPClient), now: s.Now}
}

// get returns the key with the id. It fetches the keys again if the id is unknown. Errors: errUndecided, errUnknownKey.
func (s *keySet) get(ctx context.Context, id string) (*key, error) {
	if k := s.lookup(id); k != nil {
		if s.stale() {
			s.refresh(ctx) // in the background
		}
		return k, nil
	}
	var err error
	select {
	case result := <-s.refresh(ctx):
		err = result.Err
	case <-ctx.Done():
		return nil, errors.Join(errUndecided, ctx.Err())
	}
	// Another caller's fetch may have ended between the lookup and refresh, so look up again before refusing.
	if k := s.lookup(id); k != nil {
		return k, nil
	}
	if s.current.Load() == nil {
		return nil, errors.Join(errUndecided, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (keys not fetched again: %w)", errUnknownKey, err)
	}
	return nil, errUnknownKey
}

// stillPublishes reports whether the issuer still publishes the key, as far as is known.
func (s *keySet) stillPublishes(k *key) bool { return s.lookup(k.id) == k }

func (s *keySet) lookup(id string) *key {
	if p := s.current.Load(); p != nil {
		return p.keys[id]
	}
	return nil
}

// stale reports whether the keys are older than maxAge and may be fetched again now.
func (s *keySet) stale() bool {
	now := s.now()
	return now.Sub(s.current.Load().fetched) > maxAge && now.UnixNano() >= s.next.Load()
}

// refresh fetches the keys once for all concurrent callers, unless the last fetch is too recent (errTooSoon). The fetch
// goes on when the first caller's ctx ends; only the source's timeouts end it.
func (s *keySet) refresh(ctx context.Context) <-chan singleflight.Result {
	detached := context.WithoutCancel(ctx)
	return s.flight.DoChan("", func() (any, error) {
		began, known := s.now(), s.current.Load()
		if began.UnixNano() < s.next.Load() {
			return nil, errTooSoon
		}
		wait := fetchInterval
		if known == nil {
			wait = firstInterval
		}
		// Set before the fetch, so that a fetch that fails slowly counts as well.
		s.next.Store(began.Add(wait).UnixNano())
		keys, err := s.source.fetch(detached)
		if err != nil {
			return nil, err
		}
		s.next.Store(began.Add(fetchInterval).UnixNano())
		s.current.Store(&published{keys: reuseUnchanged(known, keys), fetched: began})
		return nil, nil
	})
}

// reuseUnchanged replaces unchanged keys with the known ones, so that their pointers stay the same.
func reuseUnchanged(known *published, keys map[string]*key) map[string]*key {
	if known == nil {
		return keys
	}
	for id, k := range keys {
		if old := known.keys[id]; old != nil && old.public.Equal(k.public) {
			keys[id] = old
		}
	}
	return keys
}
