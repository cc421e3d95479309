package audit

import (
	"context"
	"sync"

	"github.com/google/uuid"
)

// Trail sees to it that a call has one entry. Its id is chosen before anything is done: a change that the call commits writes the entry
// under that id in the same commit, and whoever serves the call writes it when no change did. Both create it, so where the outcome of a
// commit is unknown one of the two fails, and the entry says what happened: a change that is committed has its own entry, and one whose
// place was taken can't be committed any more.
//
// A nil Trail is a call that nobody keeps the entry of. Its methods may be called from any goroutine.
type Trail struct {
	id string

	mu      sync.Mutex
	claimed bool
	written bool
	target  Target
}

type trailKey struct{}

// WithTrail returns a context that carries a new trail.
func WithTrail(ctx context.Context) (context.Context, *Trail) {
	t := &Trail{id: uuid.NewString()}
	return context.WithValue(ctx, trailKey{}, t), t
}

// TrailOf returns the trail in ctx, or nil.
func TrailOf(ctx context.Context) *Trail {
	t, _ := ctx.Value(trailKey{}).(*Trail)
	return t
}

// ID is the id of the call's entry; "" without a trail.
func (t *Trail) ID() string {
	if t == nil {
		return ""
	}
	return t.id
}

// Claim tells a change whether it is the call's first, which creates the entry; later ones add to it. Without a trail every change is a
// first one.
func (t *Trail) Claim() (first bool) {
	if t == nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	first = !t.claimed
	t.claimed = true
	return first
}

// Write says that the entry was written, which is certain.
func (t *Trail) Write() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written = true
}

// Written reports whether the entry was certainly written. When it is false it may have been, all the same.
func (t *Trail) Written() bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// Find says what the call acts on, once that is known to be the organization's own.
func (t *Trail) Find(target Target) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.target = target
}

// Target is what Find was told; the zero value when nothing was found.
func (t *Trail) Target() Target {
	if t == nil {
		return Target{}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.target
}
