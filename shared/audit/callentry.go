package audit

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// CallEntry sees to it that a call has one entry. Its id is chosen before anything is done: a change that the call
// commits writes the entry under that id in the same commit, and whoever serves the call writes it when no change did.
// Both create it, so where the outcome of a commit is unknown one of the two fails, and the entry says what happened: a
// change that is committed has its own entry, and one whose place was taken can't be committed any more.
//
// A nil Trail is a call that nobody keeps the entry of. Its methods may be called from any goroutine.
type CallEntry struct {
	id string

	mu      sync.Mutex
	claimed bool
	written bool
	target  Target
}

type callEntryKey struct{}

// WithCallEntry returns a context that carries a new trail.
func WithCallEntry(ctx context.Context) (context.Context, *CallEntry) {
	t := &CallEntry{id: uuid.NewString()}
	return context.WithValue(ctx, callEntryKey{}, t), t
}

// CallEntryFrom returns the trail in ctx, or nil.
func CallEntryFrom(ctx context.Context) *CallEntry {
	t, _ := ctx.Value(callEntryKey{}).(*CallEntry)
	return t
}

// ID is the id of the call's entry; "" without a trail.
func (t *CallEntry) ID() string {
	if t == nil {
		return ""
	}
	return t.id
}

// Claim tells a change whether it is the call's first, which creates the entry; later ones add to it. Without a trail
// every change is a first one.
func (t *CallEntry) Claim() (first bool) {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.claimed
	t.claimed = true
	return first
}

// MarkWritten says that the entry was written, which is certain.
func (t *CallEntry) MarkWritten() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = true
}

// Written reports whether the entry was certainly written. When it is false it may have been, all the same.
func (t *CallEntry) Written() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// SetTarget says what the call acts on, once that is known to be the organization's own.
func (t *CallEntry) SetTarget(target Target) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.target = target
}

// Target is what Find was told; the zero value when nothing was found.
func (t *CallEntry) Target() Target {
	if t == nil {
		return Target{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.target
}
