package ratelimit

import "time"

// Recent remembers keys for a time, at most a number of them: those that were added last. It keeps their SHA-256 sums
// only, so a key may be a secret. It is safe for concurrent use. A nil Recent remembers nothing.
type Recent struct {
	memory time.Duration
	now    func() time.Time
	start  time.Time
	added  *table // since start
}

// NewRecent returns an empty memory of a length. now is the clock; nil means time.Now.
func NewRecent(memory time.Duration, keys int, now func() time.Time) *Recent {
	if now == nil {
		now = time.Now
	}
	return &Recent{memory: memory, now: now, start: now(), added: newTable(keys)}
}

// Add remembers a key from now on.
func (r *Recent) Add(key string) {
	if r == nil {
		return
	}
	r.added.mu.Lock()
	defer r.added.mu.Unlock()
	r.added.put(sumOf(key), r.now().Sub(r.start))
}

// Has reports whether the key was added lately.
func (r *Recent) Has(key string) bool {
	if r == nil {
		return false
	}
	at, ok := r.added.get(sumOf(key))
	return ok && r.now().Sub(r.start)-at < r.memory
}

// Remove forgets a key.
func (r *Recent) Remove(key string) {
	if r != nil {
		r.added.remove(sumOf(key))
	}
}
