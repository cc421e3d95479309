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
	// fetchInterval is how often keys are fetched at most once some are known. A flood of tokens with made-up key ids
	// therefore costs the issuer one request in it, and a rotated key is known after it at the latest, mostly at once.
	fetchInterval = 30 * time.Second
	// firstInterval is the same while none are known: nobody can sign in then, so a shorter wait is worth more
	// requests.
	firstInterval = time.Second
	// maxAge is when keys are fetched again though nobody misses one, so that a withdrawn key does not stay good.
	maxAge = time.Hour
)

var (
	// errUndecided says that the issuer's keys are not known, so that nobody can tell whether a token is good.
	errUndecided  = errors.New("the issuer's keys are not known")
	errUnknownKey = errors.New("kid: the issuer does not publish such a key")
	errTooSoon    = errors.New("the keys were asked for a moment ago")
)

// key is one of the issuer's keys. It is the same pointer for as long as the issuer publishes it.
type key struct {
	id     string
	public *rsa.PublicKey
}

// keySet holds the keys that an issuer publishes. What it holds stays good while the issuer can't be reached.
type keySet struct {
	source  *source
	now     func() time.Time
	flight  singleflight.Group
	current atomic.Pointer[published]
	// next is the earliest moment of the next fetch, in nanoseconds since 1970.
	next atomic.Int64
}

// published is what the issuer answered at a time. It is never changed.
type published struct {
	keys    map[string]*key
	fetched time.Time
}

func newKeySet(s settings) *keySet {
	return &keySet{source: newSource(s.Issuer, s.HTTPClient), now: s.Now}
}

// get returns the key with the id, and fetches the keys again when it is unknown. Errors: errUndecided, errUnknownKey.
func (s *keySet) get(ctx context.Context, id string) (*key, error) {
	if k := s.lookup(id); k != nil {
		if s.stale() {
			s.refresh(ctx) // nobody waits for it
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
	// A fetch that others began may have ended between the look-up and the refusal of this one, so look before judging.
	if k := s.lookup(id); k != nil {
		return k, nil
	}
	if s.current.Load() == nil {
		return nil, errors.Join(errUndecided, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w (not asked again: %w)", errUnknownKey, err)
	}
	return nil, errUnknownKey
}

// holds reports whether the issuer still publishes the key.
func (s *keySet) holds(k *key) bool { return s.lookup(k.id) == k }

func (s *keySet) lookup(id string) *key {
	if p := s.current.Load(); p != nil {
		return p.keys[id]
	}
	return nil
}

// stale reports whether keys that nobody misses should be fetched again, and may be now.
func (s *keySet) stale() bool {
	now := s.now()
	return now.Sub(s.current.Load().fetched) > maxAge && now.UnixNano() >= s.next.Load()
}

// refresh fetches the keys once for everybody who asks at the same time, unless that was done a moment ago
// (errTooSoon). It does not end with the caller who happened to be the first; the source's own time-outs end it.
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
		// Before the fetch and not after it: one that fails slowly counts, too.
		s.next.Store(began.Add(wait).UnixNano())
		keys, err := s.source.fetch(detached)
		if err != nil {
			return nil, err
		}
		s.next.Store(began.Add(fetchInterval).UnixNano())
		s.current.Store(&published{keys: keep(known, keys), fetched: began})
		return nil, nil
	})
}

// keep replaces keys that have not changed by what is known already, so that they are the same pointers.
func keep(known *published, keys map[string]*key) map[string]*key {
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
