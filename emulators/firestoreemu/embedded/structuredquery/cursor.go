package structuredquery

import (
	"errors"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// cursor is a position in the results: values for the first orders. nil means unbounded.
type cursor struct {
	values []*firestorepb.Value
	// before means just before the documents with these values instead of just after them.
	before bool
}

func (q *Query) parseCursor(c *firestorepb.Cursor) (*cursor, error) {
	if c == nil {
		return nil, nil
	}
	if len(c.GetValues()) > len(q.Orders) {
		return nil, errors.New("the cursor has more values than the query has orders")
	}
	for i, v := range c.GetValues() {
		if _, ok := v.GetValueType().(*firestorepb.Value_ReferenceValue); q.Orders[i].IsName() && !ok {
			return nil, errors.New("the cursor's value for " + value.NamePath + " is not a reference")
		}
	}
	return &cursor{c.GetValues(), c.GetBefore()}, nil
}

// admits reports whether a document is on the right side of the cursor: after it if the cursor begins the results,
// before it otherwise.
func (c *cursor) admits(orders []Order, d *firestorepb.Document, begins bool) bool {
	if c == nil {
		return true
	}
	for i, v := range c.values {
		if place := orders[i].compare(field(d, orders[i].Path), v); place != 0 {
			return begins == (place > 0)
		}
	}
	return begins == c.before
}
