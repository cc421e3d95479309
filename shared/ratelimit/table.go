package ratelimit

import (
	"crypto/sha256"
	"sync"
	"time"
)

// sum stands for a key. It has a fixed size, and keeps no string alive that a key may be a part of, such as a header.
type sum [16]byte

func sumOf(key string) sum {
	whole := sha256.Sum256([]byte(key))
	return sum(whole[:len(sum{})])
}

// table holds a time for each of a bounded number of keys. Later times are worth more.
type table struct {
	capacity int

	mu    sync.Mutex
	times map[sum]time.Duration
}

func newTable(capacity int) *table { return &table{capacity: capacity, times: map[sum]time.Duration{}} }

// sample is how many times put compares to find an early one. Two would do to keep the latest.
const sample = 8

// put stores a time. A new key in a full table replaces the earliest of a few random ones. The caller holds mu.
func (t *table) put(key sum, at time.Duration) {
	if _, known := t.times[key]; !known && len(t.times) >= t.capacity {
		t.dropEarly()
	}
	t.times[key] = at
}

// dropEarly removes the earliest of a few times. Go begins to iterate over a map at a random place.
func (t *table) dropEarly() {
	var earliest sum
	seen := 0
	for key, at := range t.times {
		if seen == 0 || at < t.times[earliest] {
			earliest = key
		}
		if seen++; seen == sample {
			break
		}
	}
	delete(t.times, earliest)
}

func (t *table) get(key sum) (at time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, ok = t.times[key]
	return at, ok
}

func (t *table) remove(key sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.times, key)
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.times)
}
