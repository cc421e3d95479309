package ratelimit_test

import (
	"errors"
	"testing"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/ratelimit"
)

func TestTakeStored_CountsAgainstTheStoredTime(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Limit{Quota: 10, Window: time.Minute}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const beyond = time.Microsecond
	for name, c := range map[string]struct {
		fullAt        time.Duration // from now
		unset         bool          // the record has no time
		wantAllowed   bool
		wantRemaining int
		wantReset     time.Duration
	}{
		"no time":  {unset: true, wantAllowed: true, wantRemaining: 9, wantReset: 6 * time.Second},
		"long ago": {fullAt: -time.Hour, wantAllowed: true, wantRemaining: 9, wantReset: 6 * time.Second},
		"now":      {fullAt: 0, wantAllowed: true, wantRemaining: 9, wantReset: 6 * time.Second},
		"half full": {
			fullAt: 30 * time.Second, wantAllowed: true, wantRemaining: 4, wantReset: 36 * time.Second,
		},
		"last call":          {fullAt: 54 * time.Second, wantAllowed: true, wantRemaining: 0, wantReset: time.Minute},
		"just empty":         {fullAt: 54*time.Second + beyond, wantReset: beyond},
		"empty":              {fullAt: time.Minute, wantReset: 6 * time.Second},
		"a clock 54 s ahead": {fullAt: 114 * time.Second, wantReset: time.Minute},
		"a clock ahead by more": {
			fullAt: 114*time.Second + beyond, wantAllowed: true, wantRemaining: 9, wantReset: 6 * time.Second,
		},
		"a clock a year ahead": {
			fullAt: 365 * 24 * time.Hour, wantAllowed: true, wantRemaining: 9, wantReset: 6 * time.Second,
		},
	} {
		fullAt := now.Add(c.fullAt)
		if c.unset {
			fullAt = time.Time{}
		}
		next, d := limit.TakeStored(ratelimit.Creations, 1, fullAt, now)
		want := ratelimit.Decision{
			Class: ratelimit.Creations, Limit: limit, Allowed: c.wantAllowed, Remaining: c.wantRemaining,
			Reset: c.wantReset,
		}
		if d != want {
			t.Errorf("%s: decision %+v, want %+v", name, d, want)
		}
		wantNext := fullAt // a refused call stores nothing
		if c.wantAllowed {
			wantNext = now.Add(c.wantReset)
		}
		if !next.Equal(wantNext) {
			t.Errorf("%s: full again at %s, want %s", name, next, wantNext)
		}
	}
}

// TestTakeStored_AllowsTheQuotaInARow also takes quotas by which the window cannot be divided, with times that are
// stored in microseconds.
func TestTakeStored_AllowsTheQuotaInARow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, quota := range []int{1, 7, 10, 70, 1000, 70_000} {
		limit := ratelimit.Limit{Quota: quota, Window: time.Minute}
		var fullAt time.Time
		allowed := 0
		for {
			next, d := limit.TakeStored(ratelimit.Creations, 1, fullAt, now)
			if !d.Allowed {
				break
			}
			allowed++
			fullAt = next.Truncate(time.Microsecond)
		}
		if allowed != quota {
			t.Errorf("quota %d: %d calls in a row, want the quota", quota, allowed)
		}
	}
	if _, d := (ratelimit.Limit{}).TakeStored(ratelimit.Creations, 1, now.Add(time.Hour), now); !d.Allowed {
		t.Error("a limit without a quota refused a call")
	}
}

func TestTakeStored_TakesTheCost(t *testing.T) {
	t.Parallel()
	limit := ratelimit.Limit{Quota: 100, Window: 100 * time.Second}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		fullAt        time.Duration // from now
		cost          int
		wantAllowed   bool
		wantRemaining int
		wantReset     time.Duration
	}{
		"none of a full bucket": {cost: 0, wantAllowed: true},
		"none of empty":         {fullAt: 100 * time.Second, cost: 0, wantAllowed: true},
		"part of a full bucket": {cost: 20, wantAllowed: true, wantRemaining: 80, wantReset: 20 * time.Second},
		"the whole bucket":      {cost: 100, wantAllowed: true, wantRemaining: 0, wantReset: 100 * time.Second},
		"more than the bucket":  {cost: 500, wantAllowed: true, wantRemaining: 0, wantReset: 100 * time.Second},
		"the rest": {
			fullAt: 80 * time.Second, cost: 20, wantAllowed: true, wantReset: 100 * time.Second,
		},
		"more than the rest": {fullAt: 85 * time.Second, cost: 20, wantReset: 5 * time.Second},
		"not full":           {fullAt: time.Second, cost: 500, wantReset: time.Second},
		"a clock 1 s ahead":  {fullAt: 101 * time.Second, cost: 100, wantReset: 101 * time.Second},
	} {
		next, d := limit.TakeStored(ratelimit.SecretWrites, c.cost, now.Add(c.fullAt), now)
		if d.Allowed != c.wantAllowed || d.Remaining != c.wantRemaining || d.Reset != c.wantReset {
			t.Errorf("%s: allowed %t, %d remaining, reset %s, want %t, %d, %s", name, d.Allowed, d.Remaining, d.Reset,
				c.wantAllowed, c.wantRemaining, c.wantReset)
		}
		want := now.Add(c.fullAt)
		if c.wantAllowed && c.cost > 0 {
			want = now.Add(c.wantReset)
		}
		if !next.Equal(want) {
			t.Errorf("%s: full again at %s, want %s", name, next, want)
		}
	}
}

func TestRefusal_IsInTheErrorOfARefusedCall(t *testing.T) {
	t.Parallel()
	l, _ := newLimiter()
	useUpMutations(t, l, "key-1")
	d := l.Take(ratelimit.Mutations, "key-1")
	if got, ok := ratelimit.Refusal(d.Err()); !ok || got != d {
		t.Errorf("Refusal = %+v, %t, want %+v", got, ok, d)
	}
	for _, err := range []error{nil, errors.New("x"), fault.New(fault.RateLimited, "rate_limited", "Later.")} {
		if got, ok := ratelimit.Refusal(err); ok {
			t.Errorf("Refusal of %v = %+v, want none", err, got)
		}
	}
}
