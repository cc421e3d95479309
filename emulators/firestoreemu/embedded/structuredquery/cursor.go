package structuredquery

import (
	"errors"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// cursor is a place in the results: values of the first orders. nil is no bound.
type cursor struct {
	values []*firestorepb.Value
	// before is a place just before the documents with these values, and not just after them.
	before bool
}

func (q *Query) cursor(c *firestorepb.Cursor) (*cursor, error) {
	if c == nil {
		return nil, nil
	}
	if len(c.GetValues()) > len(q.Orders) {
		return nil, errors.New("the cursor has more values than the query has orders")
	}
	for i, v := range c.GetValues() {
		if _, ok := v.GetValueType().(*firestorepb.Value_ReferenceValue); q.Orders[i].IsName() && !ok {
			return nil, errors.New("the cursor's value for " + value.NamePath + " is no reference")
		}
	}
	return &cursor{c.GetValues(), c.GetBefore()}, nil
}

// allows reports whether a document is after the cursor, or, where the cursor ends the results, before it.
func (c *cursor) allows(orders []Order, d *firestorepb.Document, begins bool) bool {
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
