// Package structuredquery parses and evaluates Firestore's queries of one collection.
//
// It does not load documents, and it does not decide which index a query needs. Unsupported features are refused by
// name.
package structuredquery

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"cloud.google.com/go/firestore/apiv1/firestorepb"

	"agents.example/controlplane/emulators/firestoreemu/embedded/value"
)

// ErrUnimplemented is wrapped by errors about Firestore features that this package lacks.
var ErrUnimplemented = value.ErrUnimplemented

// Query is a parsed query.
type Query struct {
	// Collection is the collection id.
	Collection string
	// Filters must all hold.
	Filters []Filter
	// Orders are the requested orders, followed by those that the filters imply and finally the document name.
	Orders []Order

	from, to  *cursor
	offset    int
	limit     int // unlimited if negative
	paths     []value.Path
	projected bool // whether paths limits the returned fields
}

// Order is an order by a field.
type Order struct {
	Path       value.Path
	Descending bool
}

// IsName reports whether the order is by document name.
func (o Order) IsName() bool { return isName(o.Path) }

func isName(p value.Path) bool { return len(p) == 1 && p[0] == value.NamePath }

// Parse parses a query. The error names the mistake or wraps ErrUnimplemented.
func Parse(q *firestorepb.StructuredQuery) (*Query, error) {
	switch {
	case len(q.GetFrom()) != 1:
		return nil, errors.New("a query needs one collection in from")
	case q.GetFrom()[0].GetAllDescendants():
		return nil, fmt.Errorf("a collection group query: %w", ErrUnimplemented)
	case q.GetFindNearest() != nil:
		return nil, fmt.Errorf("find_nearest: %w", ErrUnimplemented)
	case q.GetOffset() < 0:
		return nil, errors.New("offset is negative")
	case q.GetLimit().GetValue() < 0:
		return nil, errors.New("limit is negative")
	}
	parsed := &Query{Collection: q.GetFrom()[0].GetCollectionId(), offset: int(q.GetOffset()), limit: -1}
	if q.GetLimit() != nil {
		parsed.limit = int(q.GetLimit().GetValue())
	}
	var err error
	if parsed.Filters, err = parseFilters(q.GetWhere()); err != nil {
		return nil, err
	}
	if err = parsed.parseOrders(q.GetOrderBy()); err != nil {
		return nil, err
	}
	if parsed.from, err = parsed.parseCursor(q.GetStartAt()); err != nil {
		return nil, fmt.Errorf("start_at: %w", err)
	}
	if parsed.to, err = parsed.parseCursor(q.GetEndAt()); err != nil {
		return nil, fmt.Errorf("end_at: %w", err)
	}
	return parsed, parsed.parseSelect(q.GetSelect())
}

func (q *Query) parseOrders(orders []*firestorepb.StructuredQuery_Order) error {
	for _, o := range orders {
		p, err := value.ParsePath(o.GetField().GetFieldPath())
		if err != nil {
			return err
		}
		if q.ordersBy(p) {
			return fmt.Errorf("order_by has %s twice", p)
		}
		q.Orders = append(q.Orders, Order{p, o.GetDirection() == firestorepb.StructuredQuery_DESCENDING})
	}
	// Implied orders have the direction of the last requested order.
	descending := len(q.Orders) > 0 && q.Orders[len(q.Orders)-1].Descending
	var implied []value.Path
	for _, f := range q.Filters {
		if f.Inequality() && !isName(f.Path) {
			implied = append(implied, f.Path)
		}
	}
	slices.SortFunc(implied, func(a, b value.Path) int { return cmp.Compare(a.String(), b.String()) })
	for _, p := range append(implied, value.Path{value.NamePath}) {
		if !q.ordersBy(p) {
			q.Orders = append(q.Orders, Order{p, descending})
		}
	}
	return nil
}

func (q *Query) ordersBy(p value.Path) bool {
	return slices.ContainsFunc(q.Orders, func(o Order) bool { return slices.Equal(o.Path, p) })
}

func (q *Query) parseSelect(s *firestorepb.StructuredQuery_Projection) error {
	if s == nil || len(s.GetFields()) == 0 {
		return nil
	}
	q.projected = true
	for _, f := range s.GetFields() {
		p, err := value.ParsePath(f.GetFieldPath())
		if err != nil {
			return err
		}
		if !isName(p) {
			q.paths = append(q.paths, p)
		}
	}
	return nil
}

// Choose returns the results among the documents of the collection, in order, with all their fields.
func (q *Query) Choose(documents []*firestorepb.Document) []*firestorepb.Document {
	found := slices.DeleteFunc(slices.Clone(documents), func(d *firestorepb.Document) bool { return !q.matches(d) })
	slices.SortFunc(found, q.compare)
	found = found[min(q.offset, len(found)):]
	if q.limit >= 0 {
		found = found[:min(q.limit, len(found))]
	}
	return found
}

// Skipped returns how many results the offset skips.
func (q *Query) Skipped(documents []*firestorepb.Document) int {
	if q.offset == 0 {
		return 0
	}
	all := *q
	all.offset, all.limit = 0, q.offset
	return len(all.Choose(documents))
}

// Project returns a document with only the selected fields.
func (q *Query) Project(d *firestorepb.Document) *firestorepb.Document {
	if !q.projected {
		return d
	}
	return &firestorepb.Document{
		Name: d.GetName(), Fields: value.Only(d.GetFields(), q.paths), CreateTime: d.GetCreateTime(),
		UpdateTime: d.GetUpdateTime(),
	}
}

func (q *Query) matches(d *firestorepb.Document) bool {
	for _, f := range q.Filters { // before orders, because they exclude most documents
		if v := field(d, f.Path); v == nil || !f.matches(v) {
			return false
		}
	}
	for _, o := range q.Orders {
		if !o.IsName() && field(d, o.Path) == nil {
			return false
		}
	}
	return q.from.admits(q.Orders, d, true) && q.to.admits(q.Orders, d, false)
}

func (q *Query) compare(a, b *firestorepb.Document) int {
	for _, o := range q.Orders {
		if c := o.compare(field(a, o.Path), field(b, o.Path)); c != 0 {
			return c
		}
	}
	return 0
}

func (o Order) compare(a, b *firestorepb.Value) int {
	if o.Descending {
		a, b = b, a
	}
	return value.Compare(a, b)
}

// field returns the value of a document at a path, which may be the document name.
func field(d *firestorepb.Document, p value.Path) *firestorepb.Value {
	if isName(p) {
		return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: d.GetName()}}
	}
	return value.Get(d.GetFields(), p)
}
