// Package ratelimit limits how often callers may call: it defines classes of calls and their limits, and counts calls
// in token buckets. A Limiter keeps its buckets in the memory of its process, so a caller of N instances is allowed
// between one and N times a limit. A bucket that a record stores is the same for all instances, so its limit is exact;
// see Limit.TakeStored. The package does not depend on HTTP and stores nothing itself.
package ratelimit

import (
	"container/list"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/fault"
)

// Class names a kind of call that is counted separately.
type Class string

// The classes.
const (
	// Reads of one key or user.
	Reads Class = "reads"
	// Polling of one agent by one key or user. It does not count as Reads.
	Polling Class = "polling"
	// Mutations of one key or user.
	Mutations Class = "mutations"
	// Creations of agents in one organization. Only successful ones count, in the organization's record.
	Creations Class = "creations"
	// SecretWrites of one organization: each secret that a request sets, deletes or rotates counts, in the
	// organization's record.
	SecretWrites Class = "secret_writes"
	// Reveals of one agent's credentials.
	Reveals Class = "reveals"
	// Authentication counts failed authentications from one address.
	Authentication Class = "authentication"
)

// Limit is the size of a bucket: Quota calls in one burst, refilled evenly over Window.
type Limit struct {
	Quota  int
	Window time.Duration
}

// Limits are the limits of a deployment.
type Limits map[Class]Limit

// Standard returns the documented limits with each quota multiplied by factor, which is 1 in production.
func Standard(factor int) Limits {
	return Limits{
		Reads:          {40 * factor, 4 * time.Second},
		Polling:        {5 * factor, time.Second},
		Mutations:      {60 * factor, time.Minute},
		Creations:      {10 * factor, time.Minute},
		SecretWrites:   {100 * factor, 100 * time.Second},
		Reveals:        {10 * factor, time.Minute},
		Authentication: {20 * factor, 5 * time.Minute},
	}
}

// Decision is a bucket's answer about one call.
type Decision struct {
	Class   Class
	Limit   Limit
	Allowed bool
	// Remaining is how many more calls the bucket allows now.
	Remaining int
	// Reset is the time until the bucket is full again, or until it allows the next call if this one was refused.
	Reset time.Duration
}

// refusal is the cause of a refused call's error. It carries the decision to whoever renders the error.
type refusal struct{ Decision }

// Error implements error.
func (r refusal) Error() string { return "over the limit " + r.Policy() }

// Refusal returns the decision whose Err is in err. ok is false for any other error.
func Refusal(err error) (d Decision, ok bool) {
	var r refusal
	ok = errors.As(err, &r)
	return r.Decision, ok
}

// Err returns RateLimited with RetryAfter for a refused call, and nil for an allowed one.
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	e := fault.New(fault.RateLimited, "rate_limited",
		"Too many requests. The limit for %s is %d in %g s. Retry in %g s.",
		d.Class, d.Limit.Quota, d.Limit.Window.Seconds(), math.Ceil(d.Reset.Seconds()))
	e.RetryAfter = d.Reset
	return e.WithCause(refusal{d}).WithMeta(map[string]any{
		"limit": string(d.Class), "max": d.Limit.Quota, "window_seconds": d.Limit.Window.Seconds(),
	})
}

// Policy returns the value of the RateLimit-Policy header.
func (d Decision) Policy() string {
	return fmt.Sprintf("%q;q=%d;w=%d", string(d.Class), d.Limit.Quota, int(d.Limit.Window.Seconds()))
}

// Header returns the value of the RateLimit header.
func (d Decision) Header() string {
	return fmt.Sprintf("%q;r=%d;t=%d", string(d.Class), d.Remaining, int(math.Ceil(d.Reset.Seconds())))
}

// Limiter counts calls. It is safe for concurrent use.
type Limiter struct {
	limits   Limits
	now      func() time.Time
	capacity int // of buckets

	mu      sync.Mutex
	buckets map[bucketKey]*list.Element
	recent  *list.List // of *bucket, most recently used first
}

type bucketKey struct {
	class Class
	key   string
}

type bucket struct {
	key   bucketKey
	rates *rate.Limiter
}

// maxBuckets bounds the memory of a limiter to about 20 MB. Beyond it, the least recently used bucket is dropped.
const maxBuckets = 100_000

// New returns a limiter. now is the clock; nil means time.Now.
func New(limits Limits, now func() time.Time) *Limiter { return NewBounded(limits, maxBuckets, now) }

// NewBounded returns a limiter that remembers at most a number of buckets, for processes with little memory.
func NewBounded(limits Limits, buckets int, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	return &Limiter{
		limits: limits, now: now, capacity: buckets, buckets: map[bucketKey]*list.Element{},
		recent: list.New(),
	}
}

// Take counts a call if the bucket allows it.
func (l *Limiter) Take(class Class, key string) Decision { return l.decide(class, key, 1) }

// Peek decides about a call without counting it.
func (l *Limiter) Peek(class Class, key string) Decision { return l.decide(class, key, 0) }

func (l *Limiter) decide(class Class, key string, cost int) Decision {
	limit, limited := l.limits[class]
	if !limited {
		return Decision{Class: class, Allowed: true}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, rates := l.now(), l.bucket(bucketKey{class, key}, limit)
	d := Decision{Class: class, Limit: limit, Allowed: rates.TokensAt(now) >= 1}
	if d.Allowed && cost > 0 {
		rates.AllowN(now, cost)
	}
	tokens := math.Max(0, rates.TokensAt(now))
	d.Remaining = int(tokens)
	missing := float64(limit.Quota) - tokens
	if !d.Allowed {
		missing = 1 - tokens
	}
	d.Reset = time.Duration(missing / float64(rates.Limit()) * float64(time.Second))
	return d
}

// bucket returns the bucket of a key. A new bucket is full, and replaces the least recently used one at capacity.
func (l *Limiter) bucket(key bucketKey, limit Limit) *rate.Limiter {
	if e, ok := l.buckets[key]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket).rates //nolint:forcetypeassert // the list holds only buckets
	}
	if l.recent.Len() >= l.capacity {
		oldest := l.recent.Back()
		delete(l.buckets, oldest.Value.(*bucket).key) //nolint:forcetypeassert // as above
		l.recent.Remove(oldest)
	}
	b := &bucket{key: key, rates: rate.NewLimiter(rate.Limit(float64(limit.Quota)/limit.Window.Seconds()), limit.Quota)}
	l.buckets[key] = l.recent.PushFront(b)
	return b.rates
}

// Buckets returns the number of buckets in memory.
func (l *Limiter) Buckets() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buckets)
}
