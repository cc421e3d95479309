package firestore

import (
	"context"
	"errors"
	"iter"
	"time"

	"agents.example/controlplane/shared/event"
	"agents.example/controlplane/shared/parallel"
)

// Follow implements event.Log.
func (l *EventLog) Follow(
	ctx context.Context, organizationID string, f event.Filter, after event.ID, idle time.Duration,
) iter.Seq2[event.Batch, error] {
	return func(yield func(event.Batch, error) bool) {
		if _, ok := l.client.ref(organizationCollection, organizationID); !ok {
			return
		}
		joined := l.client.feeds.join(organizationID)
		defer joined.leave()
		r := eventReader{log: l, feed: joined, filter: f, after: after, idle: idle, yield: yield}
		var err error
		for err == nil {
			place := joined.position()
			if err = r.catchUp(ctx); err == nil {
				err = r.follow(ctx, place)
			}
		}
		if !errors.Is(err, errReaderGone) && ctx.Err() == nil {
			yield(event.Batch{}, err)
		}
	}
}

// eventReader is a call of Follow.
type eventReader struct {
	log    *EventLog
	feed   *feed
	filter event.Filter
	after  event.ID
	idle   time.Duration
	yield  func(event.Batch, error) bool
}

var errReaderGone = errors.New("the reader wants no more events")

// hand yields a batch and moves the cursor after it.
func (r *eventReader) hand(b event.Batch) error {
	r.after = b.Next
	if !r.yield(b, nil) {
		return errReaderGone
	}
	return nil
}

// catchUp reads the log until its end.
func (r *eventReader) catchUp(ctx context.Context) error {
	if r.after == "" {
		newest, err := r.list(ctx, 1)
		if err != nil {
			return err
		}
		return r.hand(event.Batch{Next: newest.Next})
	}
	for {
		b, err := r.list(ctx, r.log.page)
		if err != nil {
			return err
		}
		if err := r.hand(b); err != nil || !b.More {
			return err
		}
	}
}

// list reads events after the cursor; the newest ones if there is none.
func (r *eventReader) list(ctx context.Context, limit int) (event.Batch, error) {
	return parallel.Apart(func() (event.Batch, error) {
		return r.log.List(ctx, r.feed.organizationID, r.filter, r.after, limit)
	})
}

// follow hands on the events of the feed after a place, until the feed no longer has them all or ctx ends.
func (r *eventReader) follow(ctx context.Context, place int) error {
	idle := time.NewTimer(r.idle)
	defer idle.Stop()
	for {
		events, end, missed, changed, err := r.feed.after(place)
		if err != nil || missed {
			return err
		}
		place = end
		if b := r.matching(events); len(b.Events) > 0 {
			if err := r.hand(b); err != nil {
				return err
			}
			idle.Reset(r.idle)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-idle.C:
			if err := r.hand(event.Batch{Next: r.after}); err != nil {
				return err
			}
			idle.Reset(r.idle)
		}
	}
}

// matching returns the events after the cursor that match the filter.
func (r *eventReader) matching(events []event.Event) event.Batch {
	b := event.Batch{Next: r.after}
	for _, e := range events {
		if e.ID > r.after && r.filter.Matches(e) {
			b.Events, b.Next = append(b.Events, e), e.ID
		}
	}
	return b
}
