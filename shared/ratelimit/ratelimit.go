// Package ratelimit knows how often callers may call: the classes of calls, their limits, and the token buckets that
// count. It counts in this process alone, so a deployment of many instances lets through a multiple; the global limit
// is the edge's. It does not know HTTP.
package ratelimit

import (
	"container/list"
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"agents.example/controlplane/shared/fault"
)

// Class names a kind of call that has buckets of its own.
type Class string

// The classes.
const (
	// Reads of one key or user.
	Reads Class = "reads"
	// Polling of one agent by one key or user: it does not eat the budget of reads.
	Polling Class = "polling"
	// Mutations of one key or user.
	Mutations Class = "mutations"
	// Creations of agents in one organization; only those that succeed count.
	Creations Class = "creations"
	// Reveals of one agent's credentials.
	Reveals Class = "reveals"
	// Authentication counts the failures of one address.
	Authentication Class = "authentication"
)

// Limit is how much one bucket lets through: Quota calls at once, refilled evenly over Window.
type Limit struct {
	Quota  int
	Window time.Duration
}

// Limits are the limits of a deployment.
type Limits map[Class]Limit

// Standard is the documented limits, each multiplied by factor: 1 in production.
func Standard(factor int) Limits {
	return Limits{
		Reads:          {40 * factor, 4 * time.Second},
		Polling:        {5 * factor, time.Second},
		Mutations:      {60 * factor, time.Minute},
		Creations:      {10 * factor, time.Minute},
		Reveals:        {10 * factor, time.Minute},
		Authentication: {20 * factor, 5 * time.Minute},
	}
}

// Decision tells about one bucket after it was asked.
type Decision struct {
	Class   Class
	Limit   Limit
	Allowed bool
	// Remaining is how many calls it would let through now.
	Remaining int
	// Reset is how long until it is full again, or, when a call was refused, until it lets the next one through.
	Reset time.Duration
}

// Err is the error of a refused call: RateLimited, with when to come back. It is nil for one that was let through.
func (d Decision) Err() error {
	if d.Allowed {
		return nil
	}
	e := fault.New(fault.RateLimited, "rate_limited",
		"Too many requests: the limit of %s is %d in %s. Try again in %s.",
		d.Class, d.Limit.Quota, d.Limit.Window, time.Duration(math.Ceil(d.Reset.Seconds()))*time.Second)
	e.RetryAfter = d.Reset
	return e.WithMeta(map[string]any{"limit": string(d.Class), "max": d.Limit.Quota,
		"window_seconds": d.Limit.Window.Seconds()})
}

// Policy is the value of a RateLimit-Policy header.
func (d Decision) Policy() string {
	return fmt.Sprintf("%q;q=%d;w=%d", string(d.Class), d.Limit.Quota, int(d.Limit.Window.Seconds()))
}

// Header is the value of a RateLimit header.
func (d Decision) Header() string {
	return fmt.Sprintf("%q;r=%d;t=%d", string(d.Class), d.Remaining, int(math.Ceil(d.Reset.Seconds())))
}

// Limiter counts calls. Its methods may be called from any goroutine.
type Limiter struct {
	limits Limits
	now    func() time.Time
	most   int

	mu      sync.Mutex
	buckets map[bucketKey]*list.Element
	recent  *list.List // of *bucket, the one used last in front
}

type bucketKey struct {
	class Class
	key   string
}

type bucket struct {
	key   bucketKey
	rates *rate.Limiter
}

// maxBuckets bounds the memory of a limiter to some 20 MB: the buckets that were used longest ago are forgotten first.
const maxBuckets = 100_000

// New makes a limiter. now is the clock; nil is time.Now.
func New(limits Limits, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	return &Limiter{limits: limits, now: now, most: maxBuckets, buckets: map[bucketKey]*list.Element{},
		recent: list.New()}
}

// Take counts a call, unless the bucket is empty.
func (l *Limiter) Take(class Class, key string) Decision { return l.ask(class, key, 1) }

// Look tells about a bucket without counting a call.
func (l *Limiter) Look(class Class, key string) Decision { return l.ask(class, key, 0) }

func (l *Limiter) ask(class Class, key string, cost int) Decision {
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

// bucket finds a bucket, or makes a full one in place of the one that was used longest ago.
func (l *Limiter) bucket(key bucketKey, limit Limit) *rate.Limiter {
	if e, ok := l.buckets[key]; ok {
		l.recent.MoveToFront(e)
		return e.Value.(*bucket).rates //nolint:forcetypeassert // only buckets are in the list
	}
	if l.recent.Len() >= l.most {
		oldest := l.recent.Back()
		delete(l.buckets, oldest.Value.(*bucket).key) //nolint:forcetypeassert // as above
		l.recent.Remove(oldest)
	}
	b := &bucket{key: key, rates: rate.NewLimiter(rate.Limit(float64(limit.Quota)/limit.Window.Seconds()), limit.Quota)}
	l.buckets[key] = l.recent.PushFront(b)
	return b.rates
}

// Buckets is how many buckets are remembered.
func (l *Limiter) Buckets() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.buckets)
}
