package seal

import (
	"context"
	"iter"
	"time"
)

// Log is a log with its seals. An iterator ends after its first error, which is Unavailable.
type Log interface {
	// Seals iterates over an organization's seals that have not expired, the oldest first.
	Seals(ctx context.Context, organizationID string) iter.Seq2[Seal, error]
	// Entries iterates over an organization's entries that have not expired and were created at or after from and
	// before to, the oldest first. A zero time sets no bound.
	Entries(ctx context.Context, organizationID string, from, to time.Time) iter.Seq2[Entry, error]
}

// Store is a Log to which a Sealer adds seals.
type Store interface {
	Log
	// Organizations lists at most limit ids of organizations whose plan lets them read their log, in order, starting
	// after the given id. Errors: Unavailable.
	Organizations(ctx context.Context, after string, limit int) ([]string, error)
	// LatestSeals iterates over an organization's seals, the newest first, with those that have expired. If the newest
	// one is deleted, as all before it may be, it has that one only, as a head: without leaves and without the seal
	// before.
	LatestSeals(ctx context.Context, organizationID string) iter.Seq2[Seal, error]
	// Create stores a seal, and in the same commit its head, which never expires. created is false if there is another
	// seal with its sequence. Errors: Unavailable.
	Create(ctx context.Context, s Seal) (created bool, err error)
	// KeepHead stores the head of a seal, unless that of this seal or of a later one is stored. Errors: Unavailable.
	KeepHead(ctx context.Context, s Seal) error
}

// Verify compares an organization's log with its seals. It holds the leaves of about Lateness and one seal in memory.
// anchor may be nil. Errors: Unavailable, ErrUnknownFormat.
func Verify(
	ctx context.Context, log Log, organizationID string, now func() time.Time, anchor *Anchor,
) (Report, error) {
	v := NewVerifier(now, anchor)
	next, stop := iter.Pull2(log.Seals(ctx, organizationID))
	defer stop()
	// The log decides which seals have expired before it does so for entries: an entry that expires in between has no
	// seal otherwise, as one that was added.
	s, sealErr, more := next()
	for e, err := range log.Entries(ctx, organizationID, time.Time{}, time.Time{}) {
		if err != nil {
			return Report{}, err
		}
		for more && v.mayFollow(e.CreatedAt) {
			if sealErr != nil {
				return Report{}, sealErr
			}
			v.AddSeal(s)
			v.closeBefore(e.CreatedAt)
			s, sealErr, more = next()
		}
		if err := v.AddEntry(e); err != nil {
			return Report{}, err
		}
	}
	for ; more; s, sealErr, more = next() {
		if sealErr != nil {
			return Report{}, sealErr
		}
		v.AddSeal(s)
		for len(v.open) > 0 { // there are no more entries
			v.closeFirst()
		}
	}
	return v.Finish(), nil
}

// mayFollow reports whether a seal that was not added may have an entry of time t.
func (v *Verifier) mayFollow(t time.Time) bool {
	newest := v.report.Newest
	return newest == nil || !t.Before(newest.SealedUntil.Add(-Lateness))
}
