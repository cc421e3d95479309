// Package document names the document that a route reads, so that authentication fetches it in the same round trip as
// the API key. It does not interpret the document.
package document

// Ref names a document: its collection and id. The zero value names none.
type Ref struct {
	Collection string
	ID         string
}

// Fetched is a document as the store read it, for reads only: a change must read the document again. A nil Fetched
// holds no document.
type Fetched struct {
	ref Ref
	// owner is the organization that owns the document; empty for a document that does not exist.
	owner string
	// snapshot is nil once it is forgotten.
	snapshot any
}

// NewFetched returns a document that the store has read. owner is empty for a document that does not exist.
func NewFetched(ref Ref, owner string, snapshot any) *Fetched {
	return &Fetched{ref: ref, owner: owner, snapshot: snapshot}
}

// Owner returns the organization that owns the document ref; ok is false if another document was fetched.
func (f *Fetched) Owner(ref Ref) (organizationID string, ok bool) {
	if f == nil || f.ref != ref {
		return "", false
	}
	return f.owner, true
}

// Snapshot returns the document ref; nil if another one was fetched, or none.
func (f *Fetched) Snapshot(ref Ref) any {
	if f == nil || f.ref != ref {
		return nil
	}
	return f.snapshot
}

// Forget keeps the document's owner only. A request that waits calls it, because a call stays in memory until the
// request ends, and because the document may change while the request waits.
func (f *Fetched) Forget() {
	if f != nil {
		f.snapshot = nil
	}
}
