package firestore

import (
	"context"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// watch tells that records of an organization's events were committed. The records never change, so only new ones
// matter.
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
	// pending is true if the service has sent a record since the last complete state.
	pending bool
	err     error
}

// targetFunc returns the query of the records that were requested at or after a time.
type targetFunc func(from time.Time) *firestorepb.Target_QueryTarget

// next waits until the service tells that records were committed, for as long as patience. After an error the watch is
// over.
func (w *watch) next(ctx context.Context, patience time.Duration) (told bool, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-timer.C:
		return false, nil
	case <-w.changed:
	}
	w.listeners.mu.Lock()
	defer w.listeners.mu.Unlock()
	return true, w.err
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
	w.current, w.count, w.pending = false, 0, false
}

func (w *watch) receive() {
	w.pending, w.count = true, w.count+1
}

// complete tells the reader that records are pending. They are all that were committed until now.
func (w *watch) complete(now time.Time) {
	if !w.current {
		return
	}
	w.from = settled(now)
	if w.pending {
		w.pending = false
		notify(w.changed)
	}
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
