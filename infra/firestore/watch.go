package firestore

import (
	"context"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
)

// watch is one wait's view of one document.
type watch struct {
	listeners *listeners
	name      string
	changed   chan struct{} // receives when latest or err was set

	// The lock of listeners guards the rest.
	stream *listenStream // nil if it never had one
	id     int32
	// current is true once the service has sent the state from when the target was added.
	current bool
	// exists is whether the last message was about a document that exists.
	exists bool
	// pending is the state from messages that are not complete yet, and latest is the one for the wait.
	pending, latest *documentState
	err             error
}

// documentState is a document, which is nil if it does not exist.
type documentState struct{ document *firestorepb.Document }

// next waits for a newer state of the document. It returns nil if the document does not exist, and skips states that
// have been replaced. After an error the watch is over.
func (w *watch) next(ctx context.Context) (*firestorepb.Document, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.changed:
		}
		state, err := w.take()
		if err != nil {
			return nil, err
		}
		if state != nil {
			return state.document, nil
		}
	}
}

// take returns the latest state, if the wait has not received it.
func (w *watch) take() (*documentState, error) {
	w.listeners.mu.Lock()
	defer w.listeners.mu.Unlock()
	state := w.latest
	w.latest = nil
	return state, w.err
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

// reset forgets what was received of a target, whose state the service sends again. A document that it does not send
// does not exist.
func (w *watch) reset() {
	w.current = false
	w.receive(nil)
}

func (w *watch) receive(d *firestorepb.Document) {
	w.pending, w.exists = &documentState{d}, d != nil
}

// deliver hands the pending state to the wait.
func (w *watch) deliver() {
	if !w.current || w.pending == nil {
		return
	}
	w.latest, w.pending = w.pending, nil
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
