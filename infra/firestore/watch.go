package firestore

import (
	"context"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// watch is a view of the records of an organization's events that are committed from some time on. The records never
// change, so only new ones matter.
type watch struct {
	listeners *listeners
	target    targetFunc
	changed   chan struct{} // receives when records or err was set

	// The lock of listeners guards the rest.
	stream *listenStream // nil if it never had one
	id     int32
	// from is the time for target when the watch begins again.
	from time.Time
	// current is true once the service has sent the state from when the target was added.
	current bool
	// count is how many records the service has sent of those that it has.
	count int32
	// pending are records from messages that are not complete yet, and complete are those for the reader.
	pending, complete []*firestorepb.Document
	err               error
}

// targetFunc returns the query of the records that were requested at or after a time.
type targetFunc func(from time.Time) *firestorepb.Target_QueryTarget

// next waits for records. They have no order, but all were committed after those that it returned before. A record may
// be returned again after the stream broke. After an error the watch is over.
func (w *watch) next(ctx context.Context) ([]*firestorepb.Document, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.changed:
		}
		if records, err := w.take(); err != nil || len(records) > 0 {
			return records, err
		}
	}
}

// take returns the records that the reader has not received.
func (w *watch) take() ([]*firestorepb.Document, error) {
	w.listeners.mu.Lock()
	defer w.listeners.mu.Unlock()
	records := w.complete
	w.complete = nil
	return records, w.err
}

// reached is the time from which another watch must begin to continue this one.
func (w *watch) reached() time.Time {
	w.listeners.mu.Lock()
	defer w.listeners.mu.Unlock()
	return w.from
}

// stop ends the watch.
func (w *watch) stop() {
	w.listeners.mu.Lock()
	defer w.listeners.mu.Unlock()
	if w.stream != nil && w.stream.targets[w.id] == w {
		w.stream.remove(w)
	}
}

// The caller holds the lock in all methods below.

// reset forgets what was received of a target, which the service sends again.
func (w *watch) reset() {
	w.current, w.count, w.pending = false, 0, nil
}

func (w *watch) receive(d *firestorepb.Document) {
	w.pending, w.count = append(w.pending, d), w.count+1
}

// deliver hands the pending records to the reader. They are all that were committed until now.
func (w *watch) deliver(now time.Time) {
	if !w.current {
		return
	}
	w.from = now.Add(-settling - clockSkew)
	if len(w.pending) == 0 {
		return
	}
	w.complete, w.pending = append(w.complete, w.pending...), nil
	notify(w.changed)
}

func (w *watch) end(err error) {
	w.err = err
	notify(w.changed)
}

// notify sends to a channel that has room for one notice, unless it already holds one.
func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
