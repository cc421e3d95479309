package ratelimit

import (
	"container/heap"
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

// table holds a time for each of a bounded number of keys. Later times are worth more: a new key in a full table
// replaces the earliest.
//
// It does not choose among a few random ones, because a flood finds the draws in which all are worth much.
type table struct {
	capacity int // at least 1

	mu    sync.Mutex
	times earliestFirst
}

func newTable(capacity int) *table {
	return &table{capacity: capacity, times: earliestFirst{places: map[sum]int{}}}
}

// put stores a time. The caller holds mu.
func (t *table) put(key sum, at time.Duration) {
	if i, known := t.times.places[key]; known {
		t.times.entries[i].at = at
		heap.Fix(&t.times, i)
		return
	}
	if t.times.Len() >= t.capacity {
		heap.Pop(&t.times)
	}
	heap.Push(&t.times, entry{key, at})
}

// at returns the time of a key. The caller holds mu.
func (t *table) at(key sum) (at time.Duration, ok bool) {
	i, ok := t.times.places[key]
	if !ok {
		return 0, false
	}
	return t.times.entries[i].at, true
}

func (t *table) get(key sum) (at time.Duration, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(key)
}

func (t *table) remove(key sum) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.times.places[key]; ok {
		heap.Remove(&t.times, i)
	}
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times.Len()
}

// entry is a key with its time.
type entry struct {
	key sum
	at  time.Duration
}

// earliestFirst is a heap of entries. It implements heap.Interface.
type earliestFirst struct {
	entries []entry
	places  map[sum]int // of the keys in entries
}

func (e *earliestFirst) Len() int           { return len(e.entries) }
func (e *earliestFirst) Less(i, j int) bool { return e.entries[i].at < e.entries[j].at }

func (e *earliestFirst) Swap(i, j int) {
	e.entries[i], e.entries[j] = e.entries[j], e.entries[i]
	e.places[e.entries[i].key], e.places[e.entries[j].key] = i, j
}

// Push implements heap.Interface.
func (e *earliestFirst) Push(x any) {
	added, _ := x.(entry)
	e.places[added.key] = len(e.entries)
	e.entries = append(e.entries, added)
}

// Pop implements heap.Interface.
func (e *earliestFirst) Pop() any {
	last := len(e.entries) - 1
	removed := e.entries[last]
	delete(e.places, removed.key)
	e.entries = e.entries[:last]
	return removed
}
