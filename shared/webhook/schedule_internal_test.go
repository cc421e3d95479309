package webhook

import (
	"testing"
	"time"
)

func TestNextAttempt_TriesEightTimesOver33Hours(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for random, want := range map[float64]struct{ least, most time.Duration }{
		0.5: {33 * time.Hour, 33*time.Hour + 10*time.Second},
		0:   {29 * time.Hour, 30 * time.Hour},
		1:   {36 * time.Hour, 37 * time.Hour},
	} {
		at, attempts := start, 1
		for next, ok := nextAttempt(attempts, at, 0, random); ok; next, ok = nextAttempt(attempts, at, 0, random) {
			if !next.After(at) {
				t.Fatalf("attempt %d follows at %v, which is not after %v", attempts+1, next, at)
			}
			at = next
			attempts++
		}
		if attempts != 8 {
			t.Errorf("random %v: %d attempts, want 8", random, attempts)
		}
		if took := at.Sub(start); took < want.least || took > want.most {
			t.Errorf("random %v: the attempts take %v, want %v to %v", random, took, want.least, want.most)
		}
	}
}

func TestNextAttempt_FirstDelayIsFiveSecondsWithJitter(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for random, want := range map[float64]time.Duration{
		0: 4500 * time.Millisecond, 0.5: 5 * time.Second, 1: 5500 * time.Millisecond,
	} {
		if next, ok := nextAttempt(1, now, 0, random); !ok || next.Sub(now) != want {
			t.Errorf("random %v: the second attempt follows after %v, want %v", random, next.Sub(now), want)
		}
	}
}

func TestNextAttempt_WaitsAsTheReceiverAsks(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for asked, want := range map[time.Duration]time.Duration{
		time.Second: 5 * time.Second, time.Minute: time.Minute, 10 * time.Hour: time.Hour,
	} {
		if next, ok := nextAttempt(1, now, asked, 0.5); !ok || next.Sub(now) != want {
			t.Errorf("after Retry-After %v the second attempt follows after %v, want %v", asked, next.Sub(now), want)
		}
	}
}

// A second run during the last attempt of the first would send the same events, and the first would lose its results.
func TestLease_OutlivesARun(t *testing.T) {
	t.Parallel()
	const lastAttempt, commits = 15 * time.Second, 10 * time.Second
	if leaseTime < runBudget+lastAttempt+commits {
		t.Errorf("a lease of %v ends before a run that starts attempts for %v", leaseTime, runBudget)
	}
}
