package oidc

import (
	"crypto/sha256"
	"sync"
	"time"
)

// entry is what is remembered of a good token.
type entry[T any] struct {
	value   T
	expires time.Time
	// key signed the token. When the issuer no longer publishes it, the entry is no longer good.
	key *key
}

// cache remembers good tokens by their SHA-256, at most size of them. It keeps two generations: when the younger is
// full, it becomes the older one, and the former older one is forgotten. So what is in use stays, what is not goes, and
// neither needs a list or a sweep.
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
