//go:build unix

package firestoreemu_test

import (
	"fmt"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"pgregory.net/rapid"
)

// query is a random query that the declared indexes can serve.
type query struct {
	Filters []condition
	Orders  []*firestorepb.StructuredQuery_Order
	Select  []string
	Limit   int
	Offset  int32
	// from and to are the values of the cursors.
	from, to             []constant
	fromBefore, toBefore bool
}

type condition struct {
	Path string
	Op   string
	v    constant
}

func (q *query) String() string {
	return fmt.Sprintf("%+v order %v select %v limit %d offset %d from %v %t to %v %t", q.Filters, q.Orders, q.Select,
		q.Limit, q.Offset, q.from, q.fromBefore, q.to, q.toBefore)
}

func (c condition) String() string { return fmt.Sprintf("%s %s %v", c.Path, c.Op, c.v) }

// useUnaryOperators does what client libraries do: it sends null and NaN with their unary operators.
func useUnaryOperators(c condition) condition {
	switch c.v {
	case nullConstant:
		c.Op = "IS_NULL"
	case nanConstant:
		c.Op = "IS_NAN"
	}
	return c
}

func drawQuery(t *rapid.T) *query {
	q := &query{
		Limit:  rapid.SampledFrom([]int{-1, -1, 1, 2, 0}).Draw(t, "limit"),
		Offset: rapid.SampledFrom([]int32{0, 0, 1}).Draw(t, "offset"),
		Select: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "m.x", "__name__"}), 0, 2, rapid.ID).Draw(t,
			"select"),
		fromBefore: rapid.Bool().Draw(t, "from before"), toBefore: rapid.Bool().Draw(t, "to before"),
	}
	fields := rapid.Permutation(queriedFields()).Draw(t, "fields")
	if rapid.Bool().Draw(t, "equal") {
		op := rapid.SampledFrom([]string{"EQUAL", "EQUAL", "IN", "IS_NULL", "IS_NAN"}).Draw(t, "op")
		q.Filters = append(q.Filters, useUnaryOperators(condition{fields[0], op, drawValue(t)}))
	}
	ranged := rapid.IntRange(0, 2).Draw(t, "range") == 0
	if ranged {
		for range rapid.IntRange(1, 2).Draw(t, "bounds") {
			op := rapid.SampledFrom([]string{
				"LESS_THAN", "LESS_THAN_OR_EQUAL", "GREATER_THAN",
				"GREATER_THAN_OR_EQUAL",
			}).Draw(t, "op")
			q.Filters = append(q.Filters, useUnaryOperators(condition{fields[1], op, drawValue(t)}))
		}
	}
	for _, f := range fields[1 : 1+rapid.IntRange(0, 2).Draw(t, "orders")] {
		q.Orders = append(q.Orders, drawOrder(t, f))
	}
	if !ranged && rapid.IntRange(0, 3).Draw(t, "by name") == 0 {
		q.Orders = append(q.Orders, drawOrder(t, "__name__"))
	}
	if len(q.Orders) > 0 && q.Orders[0].GetField().GetFieldPath() != "__name__" {
		if rapid.Bool().Draw(t, "from") {
			q.from = append(q.from, drawValue(t))
		}
		if rapid.Bool().Draw(t, "to") {
			q.to = append(q.to, drawValue(t))
		}
	}
	return q
}

func drawOrder(t *rapid.T, path string) *firestorepb.StructuredQuery_Order {
	o := &firestorepb.StructuredQuery_Order{
		Field:     &firestorepb.StructuredQuery_FieldReference{FieldPath: path},
		Direction: firestorepb.StructuredQuery_ASCENDING,
	}
	if rapid.Bool().Draw(t, "descending") {
		o.Direction = firestorepb.StructuredQuery_DESCENDING
	}
	return o
}

func (q *query) request(s *session) *firestorepb.StructuredQuery {
	r := &firestorepb.StructuredQuery{
		From:    []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: queried}},
		OrderBy: q.Orders, Offset: q.Offset, Limit: limit(q.Limit),
	}
	and := &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND}
	for _, c := range q.Filters {
		and.Filters = append(and.Filters, c.request(s))
	}
	switch len(and.Filters) {
	case 0:
	case 1:
		r.Where = and.Filters[0]
	default:
		r.Where = &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: and}}
	}
	if len(q.Select) > 0 {
		r.Select = &firestorepb.StructuredQuery_Projection{}
		for _, path := range q.Select {
			r.Select.Fields = append(r.Select.Fields, &firestorepb.StructuredQuery_FieldReference{FieldPath: path})
		}
	}
	if q.from != nil {
		r.StartAt = &firestorepb.Cursor{Values: []*firestorepb.Value{q.from[0].on(s)}, Before: q.fromBefore}
	}
	if q.to != nil {
		r.EndAt = &firestorepb.Cursor{Values: []*firestorepb.Value{q.to[0].on(s)}, Before: q.toBefore}
	}
	return r
}

func (c condition) request(s *session) *firestorepb.StructuredQuery_Filter {
	field := &firestorepb.StructuredQuery_FieldReference{FieldPath: c.Path}
	unary := func(op firestorepb.StructuredQuery_UnaryFilter_Operator) *firestorepb.StructuredQuery_Filter {
		return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_UnaryFilter{
			UnaryFilter: &firestorepb.StructuredQuery_UnaryFilter{
				Op: op, OperandType: &firestorepb.StructuredQuery_UnaryFilter_Field{Field: field},
			},
		}}
	}
	v := c.v.on(s)
	switch c.Op {
	case "IS_NULL":
		return unary(firestorepb.StructuredQuery_UnaryFilter_IS_NULL)
	case "IS_NAN":
		return unary(firestorepb.StructuredQuery_UnaryFilter_IS_NAN)
	case "IN":
		v = list(v, integer(1))
	}
	return &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
		FieldFilter: &firestorepb.StructuredQuery_FieldFilter{
			Field: field, Op: firestorepb.StructuredQuery_FieldFilter_Operator(firestorepb.StructuredQuery_FieldFilter_Operator_value[c.Op]), Value: v,
		},
	}}
}
