// Package ratelimit limits how often callers may call: it defines classes of calls and their limits, and counts calls
// in token buckets. A Limiter keeps its buckets in the memory of its process, so a caller of N instances is allowed
// between one and N times a limit. A bucket that a record stores is the same for all instances, so its limit is exact;
// see Limit.TakeStored. The package does not depend on HTTP and stores nothing itself.
package ratelimit

import (
	"errors"
	"math"
	"strconv"
	"time"

	"agents.example/controlplane/shared/fault"
)

// Class names a kind of call that is counted separately.
type Class string

// The classes.
const (
	// Reads of one key or user, also of ids that are no agents of the organization.
	Reads Class = "reads"
	// Polling of one agent of the organization by one key or user. It does not count as Reads.
	Polling Class = "polling"
	// Mutations of one key or user.
	Mutations Class = "mutations"
	// Creations of agents in one organization. Only successful ones count, in the organization's record.
	Creations Class = "creations"
	// SecretWrites of one organization: each secret that a request sets, deletes or rotates counts, in the
	// organization's record.
	SecretWrites Class = "secret_writes"
	// Exports of snapshots of one organization: each GiB of a volume counts, in the organization's record.
	Exports Class = "exports"
	// Reveals of one agent's credentials.
	Reveals Class = "reveals"
	// Payments are calls of one organization that call the payment provider.
	Payments Class = "payments"
	// Members are changes of the members of one organization, which call the identity provider.
	Members Class = "members"
	// OrganizationReads are the reads of all keys and users of one organization, polling included. An organization has
	// up to a hundred keys, so limits of callers alone would not bound it.
	OrganizationReads Class = "organization_reads"
	// OrganizationMutations are the mutations of all keys and users of one organization.
	OrganizationMutations Class = "organization_mutations"
	// Authentication counts look-ups of invalid API keys from one address.
	Authentication Class = "authentication"
	// AgentAuthentication counts look-ups of invalid API keys of all agents from an address. Agents of a cell share
	// few addresses.
	AgentAuthentication Class = "agent_authentication"
)

// ExportUnit is how many bytes count as one of Exports.
const ExportUnit = 1 << 30

// unit is what the class counts, where that is no calls.
func (c Class) unit() string {
	if c == Exports {
		return " GiB"
	}
	return ""
}

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
		Reads:                 {40 * factor, 4 * time.Second},
		Polling:               {5 * factor, time.Second},
		Mutations:             {60 * factor, time.Minute},
		Creations:             {10 * factor, time.Minute},
		SecretWrites:          {100 * factor, 100 * time.Second},
		Exports:               {2000 * factor, 24 * time.Hour},
		Reveals:               {10 * factor, time.Minute},
		Payments:              {10 * factor, time.Minute},
		Members:               {20 * factor, time.Minute},
		OrganizationReads:     {6000 * factor, 10 * time.Second},
		OrganizationMutations: {600 * factor, time.Minute},
		Authentication:        {20 * factor, 5 * time.Minute},
		AgentAuthentication:   {600 * factor, 5 * time.Minute},
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
		"Too many requests. The limit for %s is %d%s in %g s. Retry in %g s.",
		d.Class, d.Limit.Quota, d.Class.unit(), d.Limit.Window.Seconds(), math.Ceil(d.Reset.Seconds()))
	e.RetryAfter = d.Reset
	return e.WithCause(refusal{d}).WithMeta(map[string]any{
		"limit": string(d.Class), "max": d.Limit.Quota, "window_seconds": d.Limit.Window.Seconds(),
	})
}

// Policy returns the value of the RateLimit-Policy header.
func (d Decision) Policy() string {
	return d.header("q", d.Limit.Quota, "w", int(d.Limit.Window.Seconds()))
}

// Header returns the value of the RateLimit header.
func (d Decision) Header() string {
	return d.header("r", d.Remaining, "t", int(math.Ceil(d.Reset.Seconds())))
}

// header names the class, with two parameters.
func (d Decision) header(first string, a int, second string, b int) string {
	return strconv.Quote(string(d.Class)) + ";" + first + "=" + strconv.Itoa(a) + ";" + second + "=" + strconv.Itoa(b)
}

// Limiter counts calls. It is safe for concurrent use.
type Limiter struct {
	limits Limits
	now    func() time.Time
	start  time.Time
	// tables hold, for each class, the time since start when a bucket is full again. A bucket without a time is full.
	tables map[Class]*table
}

// maxBuckets bounds the buckets of each class. Those of all classes that no record stores take about 16 MB.
const maxBuckets = 25_000

// New returns a limiter. now is the clock; nil means time.Now.
func New(limits Limits, now func() time.Time) *Limiter { return NewBounded(limits, maxBuckets, now) }

// NewBounded returns a limiter that remembers at most a number of buckets of each class, for processes with little
// memory.
//
// When a class has that many, a new bucket replaces the one that is soonest full again, so it forgets the least. Who
// wants to lose a used-up bucket would have to use up as many others as the limiter remembers, after it.
func NewBounded(limits Limits, buckets int, now func() time.Time) *Limiter {
	if now == nil {
		now = time.Now
	}
	l := &Limiter{limits: limits, now: now, start: now(), tables: map[Class]*table{}}
	for class := range limits {
		l.tables[class] = newTable(buckets)
	}
	return l
}

// Take counts a call if the bucket allows it.
func (l *Limiter) Take(class Class, key string) Decision {
	return l.decide(class, key, func(b bucket) (time.Duration, bool) { return b.plus(1), b.allows() })
}

// Peek decides about a call without counting it. It remembers nothing about a new key.
func (l *Limiter) Peek(class Class, key string) Decision {
	return l.decide(class, key, func(bucket) (time.Duration, bool) { return 0, false })
}

// Charge counts a call that was already served, whether the bucket allows it or not. An overdrawn bucket refuses calls
// until it is refilled, for one window more at most.
func (l *Limiter) Charge(class Class, key string) Decision {
	return l.decide(class, key, func(b bucket) (time.Duration, bool) { return min(b.plus(1), b.now+2*b.burst()), true })
}

// Refund takes back a call that Take allowed.
func (l *Limiter) Refund(class Class, key string) {
	l.decide(class, key, func(b bucket) (time.Duration, bool) { return b.plus(-1), b.fullAt > b.now })
}

// decide decides about a call. change returns the time to store for the bucket, if it changes.
func (l *Limiter) decide(class Class, key string, change func(bucket) (fullAt time.Duration, changed bool)) Decision {
	limit, limited := l.limits[class]
	if !limited || limit.Quota <= 0 {
		return Decision{Class: class, Allowed: true}
	}
	t, sum := l.tables[class], sumOf(key)
	t.mu.Lock()
	defer t.mu.Unlock()
	b := bucket{limit: limit, now: l.now().Sub(l.start)}
	b.fullAt, _ = t.at(sum)
	d := Decision{Class: class, Limit: limit, Allowed: b.allows()}
	if fullAt, changed := change(b); changed {
		b.fullAt = fullAt
		t.put(sum, fullAt)
	}
	d.Remaining, d.Reset = b.left(), b.missing()
	if !d.Allowed {
		d.Reset = b.plus(1) - b.burst() - b.now
	}
	return d
}

// Known reports whether there is a bucket of the key.
func (l *Limiter) Known(class Class, key string) bool {
	t, ok := l.tables[class]
	if !ok {
		return false
	}
	_, known := t.get(sumOf(key))
	return known
}

// Forget drops the bucket of a key.
func (l *Limiter) Forget(class Class, key string) {
	if t, ok := l.tables[class]; ok {
		t.remove(sumOf(key))
	}
}

// Buckets returns the number of buckets in memory.
func (l *Limiter) Buckets() int {
	n := 0
	for _, t := range l.tables {
		n += t.size()
	}
	return n
}

// bucket is a bucket at one time. Times are since the start of the limiter.
type bucket struct {
	limit       Limit
	now, fullAt time.Duration
}

// interval is the time in which one call is refilled.
func (b bucket) interval() time.Duration { return max(b.limit.Window/time.Duration(b.limit.Quota), 1) }

// burst is the time in which an empty bucket is refilled.
func (b bucket) burst() time.Duration { return b.interval() * time.Duration(b.limit.Quota) }

// missing is the time until the bucket is full.
func (b bucket) missing() time.Duration { return max(b.fullAt-b.now, 0) }

// plus is when the bucket will be full again after a number of further calls.
func (b bucket) plus(calls int) time.Duration {
	return max(b.fullAt, b.now) + time.Duration(calls)*b.interval()
}

// allows reports whether the bucket holds a call.
func (b bucket) allows() bool { return b.left() >= 1 }

// left is how many calls the bucket holds.
func (b bucket) left() int { return int(max(b.burst()-b.missing(), 0) / b.interval()) }
