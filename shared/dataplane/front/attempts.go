package front

import (
	"sync"
	"time"

	"agents.example/controlplane/shared/ratelimit"
)

// Buckets of failed attempts.
const (
	fromAddress ratelimit.Class = "address"
	overall     ratelimit.Class = "overall"
)

const (
	// failedAttempts is how many attempts from one address may fail within attemptWindow.
	failedAttempts = 20
	// failedOverall is how many attempts from all addresses may fail within attemptWindow.
	failedOverall = 300
	attemptWindow = 5 * time.Minute
	// maxAddresses bounds the addresses that are remembered: those with failures, and those with successes.
	maxAddresses = 2048
	// trustTime is how long an address is trusted after a success.
	trustTime = time.Hour
)

// attempts limits failed attempts to authenticate. Two rules keep it from locking out holders of good credentials:
// the first attempt of an address is checked however many other addresses fail, and every attempt of an address that
// succeeded lately is checked, so that one program with an old key does not lock out the others behind its address.
type attempts struct {
	limits *ratelimit.Limiter
	now    func() time.Time

	mu      sync.Mutex
	trusted map[string]time.Time // end of the trust in each address
}

func newAttempts(now func() time.Time) *attempts {
	limits := ratelimit.Limits{
		fromAddress: {Quota: failedAttempts, Window: attemptWindow},
		overall:     {Quota: failedOverall, Window: attemptWindow},
	}
	return &attempts{limits: ratelimit.NewBounded(limits, maxAddresses, now), now: now, trusted: map[string]time.Time{}}
}

// try runs a check, unless too many attempts failed. A positive wait says that the attempt is refused, and after which
// time the next one is checked.
func (a *attempts) try(address string, check func() bool) (ok bool, wait time.Duration) {
	wait = a.delay(address)
	if wait > 0 && !a.trusts(address) {
		return false, wait
	}
	if check() {
		a.trust(address)
		return true, 0
	}
	if wait == 0 {
		a.limits.Take(fromAddress, address)
		a.limits.Take(overall, "")
	}
	return false, wait
}

// delay returns the time until an address may try again, 0 if it may now.
func (a *attempts) delay(address string) time.Duration {
	own := a.limits.Peek(fromAddress, address)
	switch all := a.limits.Peek(overall, ""); {
	case !own.Allowed:
		return own.Reset
	case own.Remaining < failedAttempts && !all.Allowed:
		return all.Reset
	default:
		return 0
	}
}

func (a *attempts) trusts(address string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.now().Before(a.trusted[address])
}

func (a *attempts) trust(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.trusted[address]; !known && len(a.trusted) >= maxAddresses {
		dropOldest(a.trusted)
	}
	a.trusted[address] = a.now().Add(trustTime)
}

// dropOldest removes and returns the entry with the earliest time.
func dropOldest[K comparable](entries map[K]time.Time) (oldest K, at time.Time) {
	for k, t := range entries {
		if at.IsZero() || t.Before(at) {
			oldest, at = k, t
		}
	}
	delete(entries, oldest)
	return oldest, at
}
