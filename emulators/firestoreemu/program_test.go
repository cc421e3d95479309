//go:build unix

package firestoreemu_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/genproto/googleapis/type/latlng"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"pgregory.net/rapid"
)

// callTimeout bounds every call. Only a failing test reaches it.
const callTimeout = 3 * time.Minute

// step is one step of a program. run returns a result that must be the same on all emulators.
type step interface {
	run(s *session) string
	String() string
}

func drawStep(t *rapid.T) step {
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1, 2, 3, 4:
		return commit{drawWrites(t), rapid.Bool().Draw(t, "in a transaction")}
	case 5:
		return rapid.SampledFrom([]step{count{drawQuery(t)}, rollback{}}).Draw(t, "other")
	default:
		return runQuery{drawQuery(t), rapid.Bool().Draw(t, "in a transaction")}
	}
}

// fill is the first step of every program. It writes the documents that the queries select.
type fill []write

func drawFill(t *rapid.T) fill {
	var f fill
	for _, id := range documentIDs() {
		w := write{Document: id, Fields: map[string]constant{}}
		for _, path := range queriedFields() {
			if rapid.IntRange(0, 4).Draw(t, "has "+path) > 0 {
				w.Fields[path] = drawValue(t)
			}
		}
		f = append(f, w)
	}
	return f
}

func (f fill) String() string { return fmt.Sprintf("fill %v", []write(f)) }

func (f fill) run(s *session) string {
	var writes []*firestorepb.Write
	for _, w := range f {
		fields := map[string]*firestorepb.Value{}
		for path, v := range w.Fields {
			if inner, ok := strings.CutPrefix(path, "m."); ok {
				fields["m"] = object(map[string]*firestorepb.Value{inner: v.on(s)})
			} else {
				fields[path] = v.on(s)
			}
		}
		writes = append(writes, &firestorepb.Write{
			Operation: &firestorepb.Write_Update{Update: &firestorepb.Document{
				Name:   s.name(w.Document),
				Fields: fields,
			}},
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	_, err := s.service.Commit(ctx, &firestorepb.CommitRequest{Database: s.database, Writes: writes})
	return s.outcome(err) + "\n" + s.readAll(nil)
}

func documentIDs() []string { return []string{"one", "two", "three", "Zwölf"} }

// commit commits writes, then reads all documents.
type commit struct {
	writes        []write
	transactional bool
}

func (c commit) String() string { return fmt.Sprintf("commit %+v", c.writes) }

func (c commit) run(s *session) string {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	request := &firestorepb.CommitRequest{Database: s.database}
	before := ""
	if c.transactional {
		begun, err := s.service.BeginTransaction(ctx, &firestorepb.BeginTransactionRequest{Database: s.database})
		if err != nil {
			return s.outcome(err)
		}
		request.Transaction = begun.GetTransaction()
		before = s.readAll(begun.GetTransaction())
	}
	for _, w := range c.writes {
		request.Writes = append(request.Writes, w.request(s))
	}
	answer, err := s.service.Commit(ctx, request)
	if err != nil {
		if c.transactional {
			_, _ = s.service.Rollback(ctx,
				&firestorepb.RollbackRequest{Database: s.database, Transaction: request.Transaction})
		}
		return s.outcome(err) + "\n" + s.readAll(nil)
	}
	lines := []string{before}
	for _, r := range answer.GetWriteResults() {
		line := "written"
		if r.GetUpdateTime() != nil {
			line += " " + s.formatTime(r.GetUpdateTime())
		}
		for _, result := range r.GetTransformResults() {
			line += " " + s.formatValue(result)
		}
		lines = append(lines, line)
	}
	return strings.Join(append(lines, s.readAll(nil)), "\n")
}

// rollback begins a transaction, reads and rolls back. A later commit must fail.
type rollback struct{}

func (rollback) String() string { return "rollback" }

func (rollback) run(s *session) string {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	begun, err := s.service.BeginTransaction(ctx, &firestorepb.BeginTransactionRequest{Database: s.database})
	if err != nil {
		return s.outcome(err)
	}
	read := s.readAll(begun.GetTransaction())
	_, err = s.service.Rollback(ctx,
		&firestorepb.RollbackRequest{Database: s.database, Transaction: begun.GetTransaction()})
	result := read + "\n" + s.outcome(err)
	_, err = s.service.Commit(ctx,
		&firestorepb.CommitRequest{Database: s.database, Transaction: begun.GetTransaction()})
	return result + "\n" + s.outcome(err)
}

// runQuery runs a query.
type runQuery struct {
	query         *query
	transactional bool
}

func (a runQuery) String() string { return fmt.Sprintf("query %v", a.query) }

func (a runQuery) run(s *session) string {
	request := &firestorepb.RunQueryRequest{
		Parent:    s.database + "/documents",
		QueryType: &firestorepb.RunQueryRequest_StructuredQuery{StructuredQuery: a.query.request(s)},
	}
	if a.transactional {
		request.ConsistencySelector = &firestorepb.RunQueryRequest_NewTransaction{
			NewTransaction: &firestorepb.TransactionOptions{Mode: &firestorepb.TransactionOptions_ReadOnly_{ReadOnly: &firestorepb.TransactionOptions_ReadOnly{}}},
		}
	}
	answers, err := collect(func(ctx context.Context) (grpc.ServerStreamingClient[firestorepb.RunQueryResponse],
		error,
	) {
		return s.service.RunQuery(ctx, request)
	})
	if err != nil {
		return s.outcome(err)
	}
	var lines []string
	for _, r := range answers {
		if r.GetDocument() != nil {
			lines = append(lines, s.format(r.GetDocument()))
		}
	}
	return strings.Join(lines, "\n")
}

// count counts the results of a query.
type count struct{ query *query }

func (c count) String() string { return fmt.Sprintf("count %v", c.query) }

func (c count) run(s *session) string {
	q := c.query.request(s)
	q.Select = nil
	answers, err := collect(func(ctx context.Context) (grpc.ServerStreamingClient[firestorepb.RunAggregationQueryResponse], error) {
		return s.service.RunAggregationQuery(ctx, &firestorepb.RunAggregationQueryRequest{
			Parent: s.database + "/documents",
			QueryType: &firestorepb.RunAggregationQueryRequest_StructuredAggregationQuery{
				StructuredAggregationQuery: &firestorepb.StructuredAggregationQuery{
					QueryType: &firestorepb.StructuredAggregationQuery_StructuredQuery{StructuredQuery: q},
					Aggregations: []*firestorepb.StructuredAggregationQuery_Aggregation{{
						Alias:    "n",
						Operator: &firestorepb.StructuredAggregationQuery_Aggregation_Count_{Count: &firestorepb.StructuredAggregationQuery_Aggregation_Count{}},
					}},
				},
			},
		})
	})
	if err != nil {
		return s.outcome(err)
	}
	return s.formatValue(answers[0].GetResult().GetAggregateFields()["n"])
}

// constant is a value in a program: an index into plainValues, or a reference to a document of the session's database.
type constant int

// drawValue prefers numbers, so that values of filters, cursors and increments often coincide.
func drawValue(t *rapid.T) constant {
	if rapid.IntRange(0, 2).Draw(t, "number") > 0 {
		return constant(rapid.IntRange(firstNumber, lastNumber).Draw(t, "value"))
	}
	return constant(rapid.IntRange(0, len(plainValues())+1).Draw(t, "value"))
}

// Indexes into plainValues.
const (
	firstNumber = 3
	lastNumber  = 12

	nullConstant constant = 0
	nanConstant  constant = 11
)

func (c constant) on(s *session) *firestorepb.Value {
	switch plain := plainValues(); {
	case int(c) < len(plain):
		return plain[c]
	case int(c) == len(plain):
		return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: s.name("one")}}
	default:
		return &firestorepb.Value{ValueType: &firestorepb.Value_ReferenceValue{ReferenceValue: s.name("two")}}
	}
}

func (c constant) isArray() bool {
	return int(c) < len(plainValues()) && plainValues()[c].GetArrayValue() != nil
}

func (c constant) String() string {
	if int(c) < len(plainValues()) {
		return plainValues()[c].String()
	}
	return "a reference"
}

func plainValues() []*firestorepb.Value {
	moment := time.Date(2020, 1, 2, 3, 4, 5, 123456789, time.UTC)
	return []*firestorepb.Value{
		{ValueType: &firestorepb.Value_NullValue{}},
		{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: false}},
		{ValueType: &firestorepb.Value_BooleanValue{BooleanValue: true}},
		integer(0), integer(1), integer(-7), integer(1<<53 + 1), integer(math.MaxInt64),
		double(1), double(1.5), double(1 << 53), double(math.NaN()), double(math.Inf(-1)), double(1e300), double(0),
		{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(moment)}},
		{ValueType: &firestorepb.Value_TimestampValue{TimestampValue: timestamppb.New(moment.Add(-time.Hour))}},
		text(""), text("a"), text("b"), text("é"),
		{ValueType: &firestorepb.Value_BytesValue{BytesValue: []byte{0, 255}}},
		{ValueType: &firestorepb.Value_GeoPointValue{GeoPointValue: &latlng.LatLng{Latitude: 1, Longitude: 2}}},
		list(), list(integer(1), text("a")), list(integer(1), integer(2)),
		object(nil), object(map[string]*firestorepb.Value{"x": integer(1)}),
		object(map[string]*firestorepb.Value{
			"x": text("a"),
			"y": object(map[string]*firestorepb.Value{"z": integer(1)}),
		}),
	}
}

func integer(i int64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: i}}
}

func double(f float64) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_DoubleValue{DoubleValue: f}}
}

func text(s string) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_StringValue{StringValue: s}}
}

func list(values ...*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_ArrayValue{ArrayValue: &firestorepb.ArrayValue{Values: values}}}
}

func object(fields map[string]*firestorepb.Value) *firestorepb.Value {
	return &firestorepb.Value{ValueType: &firestorepb.Value_MapValue{MapValue: &firestorepb.MapValue{Fields: fields}}}
}

func limit(n int) *wrapperspb.Int32Value {
	if n < 0 {
		return nil
	}
	return wrapperspb.Int32(int32(n))
}
