package ratelimit

import "time"

// TakeStored counts a call in a bucket that a record stores as one time: fullAt is when the bucket is full again. The
// zero time and every past time mean a full bucket. TakeStored returns the time to store, which is fullAt for a refused
// call. The limit is exact if a write of the record fails when the record changed since it was read.
//
// cost is how many tokens the call takes. A call that costs more than the quota takes a full bucket, so that it is
// possible at all. A call without cost is always allowed.
//
// A clock that is ahead stores times that are too late, and so does a release with a larger limit. While waiting for
// one token would take longer than the window, the bucket counts as full, so that such a time keeps callers of calls
// that cost one token out for one window at most, and callers of other calls for two.
func (l Limit) TakeStored(class Class, cost int, fullAt, now time.Time) (time.Time, Decision) {
	if l.Quota <= 0 || cost <= 0 {
		return fullAt, Decision{Class: class, Allowed: true}
	}
	// The interval between two tokens at the limit, in the precision of stored times.
	interval := max((l.Window / time.Duration(l.Quota)).Truncate(time.Microsecond), time.Microsecond)
	burst := interval * time.Duration(l.Quota)
	from := fullAt
	if from.Before(now) || from.Add(interval-burst).Sub(now) > l.Window {
		from = now
	}
	next := from.Add(interval * time.Duration(min(cost, l.Quota)))
	d := Decision{Class: class, Limit: l}
	if wait := next.Add(-burst).Sub(now); wait > 0 {
		d.Reset = wait
		return fullAt, d
	}
	d.Allowed, d.Reset = true, next.Sub(now)
	d.Remaining = int((burst - d.Reset) / interval)
	return next, d
}
