// Package document names the document that a route reads, so that authentication fetches it in the same round trip as
// the API key. It does not interpret the document.
package document

import (
	"context"
	"sync/atomic"
)

// Ref names a document: its collection and id. The zero value names none.
type Ref struct {
	Collection string
	ID         string
}

type fetchedKey struct{}

type fetched struct {
	ref            Ref
	organizationID string
	// snapshot is nil once it is forgotten.
	snapshot atomic.Pointer[any]
}

// WithFetched returns a context that carries a document as the store read it, and the organization that owns it; empty
// for a document that does not exist. Only reads may use it; a change must read the document again.
func WithFetched(ctx context.Context, ref Ref, organizationID string, snapshot any) context.Context {
	f := &fetched{ref: ref, organizationID: organizationID}
	f.snapshot.Store(&snapshot)
	return context.WithValue(ctx, fetchedKey{}, f)
}

// Owner returns the organization that owns the document, if ctx carries the document. It is empty for a document that
// does not exist.
func Owner(ctx context.Context, ref Ref) (organizationID string, ok bool) {
	f, ok := ctx.Value(fetchedKey{}).(*fetched)
	if !ok || f.ref != ref {
		return "", false
	}
	return f.organizationID, true
}

// Fetched returns the snapshot of ref, if ctx carries that document.
func Fetched(ctx context.Context, ref Ref) (snapshot any, ok bool) {
	f, ok := ctx.Value(fetchedKey{}).(*fetched)
	if !ok || f.ref != ref {
		return nil, false
	}
	kept := f.snapshot.Load()
	if kept == nil {
		return nil, false
	}
	return *kept, true
}

// Forget makes ctx carry the document's owner only. A request that waits calls it, because a context keeps its values
// in memory until the request ends, and because the document may change while the request waits.
func Forget(ctx context.Context) {
	if f, ok := ctx.Value(fetchedKey{}).(*fetched); ok {
		f.snapshot.Store(nil)
	}
}
