package ratelimit

import "time"

// TakeStored counts a call in a bucket that a record stores as one time: fullAt is when the bucket is full again. The
// zero time and every past time mean a full bucket. TakeStored returns the time to store, which is fullAt for a refused
// call. The limit is exact if a write of the record fails when the record changed since it was read.
//
// A clock that is ahead stores times that are too late, and so does a release with a larger limit. While waiting for
// the next call would take longer than the window, the bucket counts as full, so that such a time keeps callers out for
// one window at most.
func (l Limit) TakeStored(class Class, fullAt, now time.Time) (time.Time, Decision) {
	if l.Quota <= 0 {
		return fullAt, Decision{Class: class, Allowed: true}
	}
	// The interval between two calls at the limit, in the precision of stored times.
	interval := max((l.Window / time.Duration(l.Quota)).Truncate(time.Microsecond), time.Microsecond)
	burst := interval * time.Duration(l.Quota)
	from := fullAt
	if from.Before(now) || from.Add(interval-burst).Sub(now) > l.Window {
		from = now
	}
	next := from.Add(interval)
	d := Decision{Class: class, Limit: l}
	if wait := next.Add(-burst).Sub(now); wait > 0 {
		d.Reset = wait
		return fullAt, d
	}
	d.Allowed, d.Reset = true, next.Sub(now)
	d.Remaining = int((burst - d.Reset) / interval)
	return next, d
}
