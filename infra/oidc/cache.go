package oidc

import (
	"crypto/sha256"
	"sync"
	"time"
)

// entry is the cached result of an accepted token.
type entry[T any] struct {
	value   T
	expires time.Time
	// key signed the token. The entry is invalid once the issuer no longer publishes the key.
	key *key
}

// cache holds accepted tokens by their SHA-256, at most size of them. It has two generations. When the younger one is
// full, it replaces the older one, and a hit in the older one moves the entry to the younger one. Entries in use stay
// and others go, without a list or a sweep.
type cache[T any] struct {
	mu             sync.RWMutex
	younger, older map[[sha256.Size]byte]entry[T]
	half           int
}

func newCache[T any](size int) *cache[T] {
	return &cache[T]{younger: map[[sha256.Size]byte]entry[T]{}, half: size / 2}
}

func (c *cache[T]) get(sum [sha256.Size]byte) (entry[T], bool) {
	c.mu.RLock()
	e, young := c.younger[sum]
	if young {
		c.mu.RUnlock()
		return e, true
	}
	e, old := c.older[sum]
	c.mu.RUnlock()
	if old {
		c.put(sum, e)
	}
	return e, old
}

func (c *cache[T]) put(sum [sha256.Size]byte, e entry[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.younger) >= c.half {
		c.younger, c.older = map[[sha256.Size]byte]entry[T]{}, c.younger
	}
	c.younger[sum] = e
}
