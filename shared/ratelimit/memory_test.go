package ratelimit_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/ratelimit"
)

// heap returns the bytes of the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // a heap is smaller than 2^63 bytes
}

// TestLimiter_BoundsItsMemoryInBytes fills every class with keys that are parts of long strings, as an attacker writes
// them into headers. It is not parallel, because it measures the heap of the process.
func TestLimiter_BoundsItsMemoryInBytes(t *testing.T) { //nolint:paralleltest // it measures the heap
	const perClass, most = 26_000, 20 << 20
	limits := ratelimit.Standard(1)
	for _, stored := range []ratelimit.Class{ratelimit.Creations, ratelimit.SecretWrites, ratelimit.Exports} {
		delete(limits, stored) // no limiter counts them
	}
	before := heap()
	l := ratelimit.New(limits, nil)
	for class := range limits {
		for i := range perClass {
			header := fmt.Sprint(strings.Repeat("x", 1<<10), class, i)
			l.Take(class, header[512:])
		}
	}
	used := heap() - before
	if got := l.Buckets(); got < 100_000 || got > 25_000*len(limits) {
		t.Errorf("Buckets = %d, want 25,000 of each class", got)
	}
	if used > most {
		t.Errorf("%d buckets take %d bytes, want at most %d", l.Buckets(), used, most)
	}
	t.Logf("%d buckets take %d kB, %d bytes each", l.Buckets(), used>>10, used/int64(l.Buckets()))
}

// TestLimiter_AFloodOfKeysFreesNoCaller uses up all buckets but one, and then sends many times more keys than the
// limiter remembers. The flood replaces its own bucket, because it is sooner full again.
func TestLimiter_AFloodOfKeysFreesNoCaller(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := ratelimit.NewBounded(ratelimit.Standard(1), 100, func() time.Time { return now })
	const used = 99
	for i := range used {
		useUpMutations(t, l, fmt.Sprint("used-", i))
	}
	for i := range 50_000 {
		now = now.Add(time.Millisecond)
		l.Take(ratelimit.Mutations, fmt.Sprint("flood-", i))
	}
	if got := l.Buckets(); got != 100 {
		t.Errorf("Buckets = %d, want 100", got)
	}
	for i := range used { // 50 of 60 calls are refilled by now
		if d := l.Peek(ratelimit.Mutations, fmt.Sprint("used-", i)); d.Remaining != 50 {
			t.Errorf("Remaining of bucket %d = %d, want 50: it was pushed out", i, d.Remaining)
		}
	}
}

// TestLimiter_AFloodOfOneClassLeavesTheOthers holds that addresses cannot push out callers.
func TestLimiter_AFloodOfOneClassLeavesTheOthers(t *testing.T) {
	t.Parallel()
	l := ratelimit.NewBounded(ratelimit.Standard(1), 100, nil)
	l.Take(ratelimit.Polling, "agent")
	for i := range 1000 {
		for range 20 {
			l.Take(ratelimit.Authentication, fmt.Sprint(i))
		}
	}
	if !l.Known(ratelimit.Polling, "agent") {
		t.Error("a flood of addresses pushed out the bucket of a caller")
	}
}

func TestRecent_RemembersForATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := ratelimit.NewRecent(time.Minute, 100, func() time.Time { return now })
	r.Add("a")
	r.Add("b")
	r.Remove("b")
	now = now.Add(time.Minute - 1)
	if !r.Has("a") || r.Has("b") || r.Has("c") {
		t.Errorf("Has = %t, %t, %t, want only the first", r.Has("a"), r.Has("b"), r.Has("c"))
	}
	now = now.Add(1)
	if r.Has("a") {
		t.Error("a key is remembered for more than its time")
	}
	for i := range 1000 {
		now = now.Add(time.Millisecond)
		r.Add(fmt.Sprint(i))
	}
	known := 0
	for i := range 1000 {
		if r.Has(fmt.Sprint(i)) {
			known++
		}
	}
	if known != 100 {
		t.Errorf("%d keys are remembered, want 100", known)
	}
	var none *ratelimit.Recent
	none.Add("a")
	none.Remove("a")
	if none.Has("a") {
		t.Error("a nil Recent remembers a key")
	}
}
