package ratelimit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

// newLimiter returns a limiter with the standard limits and the function that advances its clock.
func newLimiter() (l *ratelimit.Limiter, advance func(time.Duration)) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return ratelimit.New(ratelimit.Standard(1), func() time.Time { return now }),
		func(d time.Duration) { now = now.Add(d) }
}

// useUpMutations takes the 60 mutations that the bucket of a key allows.
func useUpMutations(t *testing.T, l *ratelimit.Limiter, key string) {
	t.Helper()
	for i := range 60 {
		d := l.Take(ratelimit.Mutations, key)
		if !d.Allowed {
			t.Fatalf("call %d: Allowed = false, want true", i)
		}
		if d.Remaining != 59-i {
			t.Fatalf("call %d: Remaining = %d, want %d", i, d.Remaining, 59-i)
		}
	}
}

func TestTake_RefusesCallsBeyondTheQuota(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter()
	useUpMutations(t, l, "key-1")
	d := l.Take(ratelimit.Mutations, "key-1")
	if d.Allowed {
		t.Error("Allowed = true, want false")
	}
	err := fault.From(d.Err())
	if err == nil || err.Kind != fault.RateLimited {
		t.Fatalf("Err = %v, want RateLimited", err)
	}
	if got := err.After(); got != time.Second {
		t.Errorf("After = %s, want 1s", got)
	}
	if got, want := d.Policy(), `"mutations";q=60;w=60`; got != want {
		t.Errorf("Policy = %s, want %s", got, want)
	}
	if got, want := d.Header(), `"mutations";r=0;t=1`; got != want {
		t.Errorf("Header = %s, want %s", got, want)
	}
}

func TestTake_CountsKeysAndClassesSeparately(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter()
	useUpMutations(t, l, "key-1")
	if d := l.Take(ratelimit.Mutations, "key-2"); !d.Allowed {
		t.Error("another key was refused")
	}
	if d := l.Take(ratelimit.Reads, "key-1"); !d.Allowed {
		t.Error("another class was refused")
	}
}

func TestTake_BucketRefillsOverTime(t *testing.T) {
	t.Parallel()
	l, advance := newLimiter()
	useUpMutations(t, l, "key-1")
	l.Take(ratelimit.Mutations, "key-1") // refused, so it costs nothing
	advance(time.Second)
	if d := l.Take(ratelimit.Mutations, "key-1"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("after 1s: Allowed, Remaining = %t, %d, want true, 0", d.Allowed, d.Remaining)
	}
	advance(time.Hour)
	if d := l.Peek(ratelimit.Mutations, "key-1"); d.Remaining != 60 || d.Reset != 0 {
		t.Errorf("after 1h: Remaining, Reset = %d, %s, want 60, 0s", d.Remaining, d.Reset)
	}
}

func TestPeek_CountsNoCall(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(ratelimit.Standard(1), nil)
	for i := range 1000 {
		if d := l.Peek(ratelimit.Authentication, fmt.Sprint("192.0.2.", i%8)); !d.Allowed || d.Remaining != 20 {
			t.Fatalf("call %d: Allowed, Remaining = %t, %d, want true, 20", i, d.Allowed, d.Remaining)
		}
	}
	if got := l.Buckets(); got != 0 {
		t.Errorf("Buckets = %d after calls that count nothing, want 0", got)
	}
}

func TestCharge_OverdrawsTheBucketByOneWindow(t *testing.T) {
	t.Parallel()
	l, advance := newLimiter()
	for range 1000 {
		l.Charge(ratelimit.Mutations, "key-1")
	}
	if d := l.Take(ratelimit.Mutations, "key-1"); d.Allowed || d.Reset != 61*time.Second {
		t.Errorf("Allowed, Reset = %t, %s, want false, 61s", d.Allowed, d.Reset)
	}
	advance(61 * time.Second)
	if d := l.Take(ratelimit.Mutations, "key-1"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("a window later: Allowed, Remaining = %t, %d, want true, 0", d.Allowed, d.Remaining)
	}
}

func TestRefund_TakesBackOneCall(t *testing.T) {
	t.Parallel()
	l, advance := newLimiter()
	useUpMutations(t, l, "key-1")
	l.Refund(ratelimit.Mutations, "key-1")
	if d := l.Take(ratelimit.Mutations, "key-1"); !d.Allowed || d.Remaining != 0 {
		t.Errorf("Allowed, Remaining = %t, %d, want true, 0", d.Allowed, d.Remaining)
	}
	advance(time.Hour)
	l.Refund(ratelimit.Mutations, "key-1")
	l.Refund(ratelimit.Mutations, "key-2")
	for _, key := range []string{"key-1", "key-2"} {
		if d := l.Peek(ratelimit.Mutations, key); d.Remaining != 60 {
			t.Errorf("Remaining of the full bucket %s = %d after a refund, want 60", key, d.Remaining)
		}
	}
}

func TestForget_MakesABucketUnknown(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter()
	known := func() bool { return l.Known(ratelimit.Polling, "agent") }
	before := known()
	l.Take(ratelimit.Polling, "agent")
	taken := known()
	l.Forget(ratelimit.Polling, "agent")
	if got := []bool{before, taken, known()}; !slices.Equal(got, []bool{false, true, false}) {
		t.Errorf("Known before, after a call and after Forget = %v, want false, true, false", got)
	}
	l.Forget("unlimited", "agent")
	if l.Known("unlimited", "agent") {
		t.Error("a class without a limit has a bucket")
	}
}

func TestTake_AllowsEveryCallOfAClassWithoutLimit(t *testing.T) {
	t.Parallel()
	l := ratelimit.New(nil, nil)
	for i := range 1000 {
		d := l.Take(ratelimit.Reads, "k")
		if !d.Allowed {
			t.Fatalf("call %d: Allowed = false, want true", i)
		}
		if err := d.Err(); err != nil {
			t.Fatalf("call %d: Err = %v, want nil", i, err)
		}
	}
}
