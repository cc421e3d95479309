package firestore

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
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

// serves explains why no index serves a query, or returns nil.
//
// Equality filters alone are served by the indexes that Firestore keeps for every field, which it merges; so is a single field that is
// ordered or bounded. Anything else takes declared indexes that end in the query's order and begin with nothing but fields of its equality
// filters. It merges several of them when together they have all of those fields.
func (d declared) serves(q *firestorepb.StructuredQuery) error {
	collection := q.From[0].CollectionId
	s, err := shapeOf(q)
	if err != nil {
		return err
	}
	if s.kept() {
		return d.kept(collection, s)
	}
	missing, merged := maps.Clone(s.equal), 0
	for _, index := range d.Indexes {
		prefix := len(index.Fields) - len(s.order)
		if index.CollectionGroup != collection || prefix < 0 {
			continue
		}
		var names, ends []string
		for i, f := range index.Fields {
			if i < prefix {
				names = append(names, f.FieldPath)
			} else {
				ends = append(ends, f.FieldPath+" "+f.Order)
			}
		}
		if !slices.Equal(ends, s.order) || slices.ContainsFunc(names, func(f string) bool { return !s.equal[f] }) {
			continue
		}
		merged++
		for _, f := range names {
			delete(missing, f)
		}
	}
	if merged == 0 || len(missing) > 0 {
		return fmt.Errorf("no index of %s serves a filter by %v in the order %v", collection, slices.Sorted(maps.Keys(missing)), s.order)
	}
	return nil
}

// kept explains why the indexes that Firestore keeps by itself don't serve a query of their kind: one of them was switched off.
func (d declared) kept(collection string, s shape) error {
	used := maps.Clone(s.equal)
	if len(s.equal) == 0 {
		used[strings.Fields(s.order[0])[0]] = true
	}
	for _, o := range d.FieldOverrides {
		if o.CollectionGroup == collection && used[o.FieldPath] {
			return fmt.Errorf("the index of %s.%s is switched off", collection, o.FieldPath)
		}
	}
	return nil
}

// shape is what decides which index serves a query.
type shape struct {
	equal map[string]bool
	// order is the whole order, which ends in that of the documents' names.
	order []string
}

// kept reports whether the indexes that Firestore keeps for every field can serve the query. Those of equality filters are merged, in the
// order of names; that of a single field is read as it is.
func (s shape) kept() bool {
	return len(s.order) == 1 || len(s.order) == 2 && len(s.equal) == 0
}

// shapeOf finds the fields of the equality filters, and the order as Firestore completes it: by the field of an inequality, and by name.
func shapeOf(q *firestorepb.StructuredQuery) (shape, error) {
	s := shape{equal: map[string]bool{}}
	filters := []*firestorepb.StructuredQuery_Filter{q.Where}
	if c := q.Where.GetCompositeFilter(); c != nil {
		filters = c.Filters
	}
	inequality := ""
	for _, f := range filters {
		switch field := f.GetFieldFilter(); field.GetOp() {
		case firestorepb.StructuredQuery_FieldFilter_OPERATOR_UNSPECIFIED:
		case firestorepb.StructuredQuery_FieldFilter_EQUAL:
			s.equal[field.Field.FieldPath] = true
		default:
			inequality = field.Field.FieldPath
		}
	}
	direction := "ASCENDING"
	for _, o := range q.OrderBy {
		direction = o.Direction.String()
		s.order = append(s.order, o.Field.FieldPath+" "+direction)
	}
	switch {
	case inequality == "":
	case len(s.order) == 0:
		s.order = []string{inequality + " ASCENDING"}
	case !strings.HasPrefix(s.order[0], inequality+" "):
		return s, fmt.Errorf("the order %v doesn't begin with the bounded field %s", s.order, inequality)
	}
	if n := len(s.order); n == 0 || !strings.HasPrefix(s.order[n-1], "__name__ ") {
		s.order = append(s.order, "__name__ "+direction)
	}
	return s, nil
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
		"everything":                {query{collection: agentCollection}, true},
		"equality only":             {query{collection: agentCollection, equal: with("cloud", "cell")}, true},
		"equality by name":          {query{collection: agentCollection, equal: own, order: []order{{gcp.DocumentID, gcp.Asc}}}, true},
		"one field":                 {query{collection: agentCollection, until: "work_due_at"}, true},
		"merged":                    {query{collection: agentCollection, equal: with("status", "name"), order: newest}, true},
		"merged and bounded":        {query{collection: auditCollection, equal: with("action", "actor.id"), from: time.Now(), order: newest}, true},
		"an undeclared filter":      {query{collection: agentCollection, equal: with("cloud"), order: newest}, false},
		"one undeclared among two":  {query{collection: agentCollection, equal: with("status", "cloud"), order: newest}, false},
		"an undeclared order":       {query{collection: agentCollection, equal: own, until: "deadline"}, false},
		"two orders":                {query{collection: agentCollection, order: []order{{"status", gcp.Asc}, {"created_at", gcp.Asc}}}, false},
		"another direction":         {query{collection: agentCollection, equal: own, order: []order{{"created_at", gcp.Asc}}}, false},
		"another direction of ties": {query{collection: agentCollection, equal: own, order: []order{{"created_at", gcp.Desc}, {gcp.DocumentID, gcp.Asc}}}, false},
		"another collection":        {query{collection: userCollection, equal: own, order: newest}, false},
		"an index switched off":     {query{collection: agentCollection, equal: with("config")}, false},
		"an order switched off":     {query{collection: auditCollection, order: []order{{"created_at", gcp.Desc}}}, false},
		"without an organization":   {query{collection: agentCollection, equal: []equality{{"status", "x"}}, order: newest}, false},
		"a bound beside the order":  {query{collection: agentCollection, equal: own, until: "deadline", order: newest}, false},
	} {
		if err := d.serves(c.structured(t, row.query)); (err == nil) != row.served {
			t.Errorf("%s: %v, want served %t", name, err, row.served)
		}
	}
}

// structured is a query as it is sent.
func (c *Client) structured(t *testing.T, q query) *firestorepb.StructuredQuery {
	t.Helper()
	raw, err := c.ask(q).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	var request firestorepb.RunQueryRequest
	if err := proto.Unmarshal(raw, &request); err != nil {
		t.Fatal(err)
	}
	return request.GetStructuredQuery()
}

// TestEveryFilterIsServed asks for every combination of the filters of the audit log and of agents, with and without bounds.
func TestEveryFilterIsServed(t *testing.T) {
	t.Parallel()
	c, d := open(t, "", Options{}), readIndexes(t)
	newest := []order{{"created_at", gcp.Desc}, {gcp.DocumentID, gcp.Desc}}
	for chosen := range 1 << 6 {
		pick := func(bit int) string { return strings.Repeat("x", chosen>>bit&1) }
		at := func(bit int) time.Time { return time.Time{}.AddDate(chosen>>bit&1, 0, 0) }
		entries := auditQuery("o", audit.Filter{
			ActorID: pick(0), Action: pick(1), TargetID: pick(2), Outcome: pick(3), From: at(4), To: at(5),
		})
		agents := agentQuery("o", agent.Filter{Status: agent.Status(pick(0)), Plan: pick(1), Region: pick(2), Name: pick(3)})
		for _, q := range []query{entries, agents} {
			q.order = newest
			if err := d.serves(c.structured(t, q)); err != nil {
				t.Errorf("filters %06b: %v", chosen, err)
			}
		}
	}
}
