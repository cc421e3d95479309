package firestore

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gcp "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// The emulator answers every query; the service answers those that an index serves. So every query that a test of this package sends is
// held against the declared indexes.

//go:embed indexes.json
var indexesJSON []byte

type declared struct {
	Indexes []struct {
		CollectionGroup, QueryScope string
		Fields                      []struct{ FieldPath, Order string }
	}
	FieldOverrides []struct{ CollectionGroup, FieldPath string }
}

// serves explains why no index serves a query, or returns nil. An equality filter alone, and a single field, are served by the indexes
// that Firestore keeps for every field. An order beside equality filters takes declared indexes that end in that order; Firestore merges
// several whose equal fields together are those of the query.
func (d declared) serves(q *firestorepb.StructuredQuery) error {
	collection := q.From[0].CollectionId
	equal, ordered := split(q)
	for _, o := range d.FieldOverrides {
		if o.CollectionGroup == collection && (equal[o.FieldPath] || slices.Contains(ordered, o.FieldPath+" ASCENDING")) {
			return fmt.Errorf("the index of %s.%s is switched off", collection, o.FieldPath)
		}
	}
	if len(ordered) == 0 || len(ordered) == 1 && len(equal) == 0 {
		return nil
	}
	missing := map[string]bool{}
	for f := range equal {
		missing[f] = true
	}
	for _, index := range d.Indexes {
		var fields []string
		for _, f := range index.Fields {
			if f.FieldPath != "__name__" {
				fields = append(fields, f.FieldPath+" "+f.Order)
			}
		}
		prefix := len(fields) - len(ordered)
		if index.CollectionGroup != collection || prefix < 0 || !slices.Equal(fields[prefix:], ordered) {
			continue
		}
		names := fields[:prefix]
		for i := range names {
			names[i] = strings.Fields(names[i])[0]
		}
		if slices.ContainsFunc(names, func(f string) bool { return !equal[f] }) {
			continue
		}
		for _, f := range names {
			delete(missing, f)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("no index of %s serves a filter by %v in the order %v", collection, missing, ordered)
	}
	return nil
}

// split finds the fields of the equality filters, and the order with the inequality's field in it.
func split(q *firestorepb.StructuredQuery) (equal map[string]bool, ordered []string) {
	equal = map[string]bool{}
	filters := []*firestorepb.StructuredQuery_Filter{q.Where}
	if c := q.Where.GetCompositeFilter(); c != nil {
		filters = c.Filters
	}
	inequality := ""
	for _, f := range filters {
		switch field := f.GetFieldFilter(); field.GetOp() {
		case firestorepb.StructuredQuery_FieldFilter_OPERATOR_UNSPECIFIED:
		case firestorepb.StructuredQuery_FieldFilter_EQUAL:
			equal[field.Field.FieldPath] = true
		default:
			inequality = field.Field.FieldPath
		}
	}
	for _, o := range q.OrderBy {
		if o.Field.FieldPath != "__name__" {
			ordered = append(ordered, o.Field.FieldPath+" "+o.Direction.String())
		}
	}
	if len(ordered) == 0 && inequality != "" {
		ordered = []string{inequality + " ASCENDING"}
	}
	return equal, ordered
}

func readIndexes(t *testing.T) declared {
	t.Helper()
	var d declared
	if err := json.Unmarshal(indexesJSON, &d); err != nil {
		t.Fatal(err)
	}
	for _, index := range d.Indexes {
		if index.CollectionGroup == "" || index.QueryScope != "COLLECTION" || len(index.Fields) < 2 {
			t.Errorf("not a composite index: %+v", index)
		}
	}
	return d
}

// indexed makes an interceptor that fails the test when it sends a query that no index serves.
func indexed(t *testing.T) []grpc.DialOption {
	d := readIndexes(t)
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return sentQueries{s, func(q *firestorepb.StructuredQuery) {
			if err := d.serves(q); err != nil {
				t.Error(err)
			}
		}}, err
	})}
}

type sentQueries struct {
	grpc.ClientStream
	check func(*firestorepb.StructuredQuery)
}

func (s sentQueries) SendMsg(m any) error {
	if r, ok := m.(*firestorepb.RunQueryRequest); ok {
		s.check(r.GetStructuredQuery())
	}
	return s.ClientStream.SendMsg(m)
}

// TestIndexCheck proves that the check finds what it is for.
func TestIndexCheck(t *testing.T) {
	t.Parallel()
	c, d := open(t, "", Options{}), readIndexes(t)
	own := []equality{{"organization_id", "o"}}
	with := func(fields ...string) []equality {
		equal := slices.Clone(own)
		for _, f := range fields {
			equal = append(equal, equality{f, "x"})
		}
		return equal
	}
	newest := []order{{"created_at", gcp.Desc}, {gcp.DocumentID, gcp.Desc}}
	for name, row := range map[string]struct {
		query  query
		served bool
	}{
		"equality only":           {query{collection: agentCollection, equal: with("cloud", "cell")}, true},
		"one field":               {query{collection: agentCollection, until: "work_due_at"}, true},
		"merged":                  {query{collection: agentCollection, equal: with("status", "name"), order: newest}, true},
		"an undeclared filter":    {query{collection: agentCollection, equal: with("cloud"), order: newest}, false},
		"an undeclared order":     {query{collection: agentCollection, equal: own, until: "deadline"}, false},
		"another direction":       {query{collection: agentCollection, equal: own, order: []order{{"created_at", gcp.Asc}}}, false},
		"another collection":      {query{collection: userCollection, equal: own, order: newest}, false},
		"an index switched off":   {query{collection: agentCollection, equal: with("config")}, false},
		"without an organization": {query{collection: agentCollection, equal: []equality{{"status", "x"}}, order: newest}, false},
	} {
		raw, err := c.ask(row.query).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		var request firestorepb.RunQueryRequest
		if err := proto.Unmarshal(raw, &request); err != nil {
			t.Fatal(err)
		}
		if err := d.serves(request.GetStructuredQuery()); (err == nil) != row.served {
			t.Errorf("%s: %v, want served %t", name, err, row.served)
		}
	}
}
