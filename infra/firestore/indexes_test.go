package firestore

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestoreemu/embedded/index"
	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
)

// The official emulator answers every query; the service, as the embedded emulator, answers those that an index serves.
// So every query that a test of this package sends is held against the declared indexes, whatever answers it.

func readIndexes(t *testing.T) index.Declared {
	t.Helper()
	d, err := index.Parse(indexesJSON)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// unserved explains why no declared index serves a query, or returns nil.
func unserved(d index.Declared, q *firestorepb.StructuredQuery) error {
	parsed, err := structuredquery.Parse(q)
	if err != nil {
		return err
	}
	if missing := d.Missing(parsed); missing != nil {
		return missing.Error("projects/p/databases/" + gcp.DefaultDatabaseID)
	}
	return nil
}

// indexed makes an interceptor that fails the test when it sends a query that no index serves.
func indexed(t *testing.T) []grpc.DialOption {
	d := readIndexes(t)
	return []grpc.DialOption{grpc.WithChainStreamInterceptor(func(
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer,
		opts ...grpc.CallOption,
	) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return sentQueries{s, func(q *firestorepb.StructuredQuery) {
			if err := unserved(d, q); err != nil {
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
	own := []equality{{field: "organization_id", value: "o"}}
	with := func(fields ...string) []equality {
		equal := slices.Clone(own)
		for _, f := range fields {
			equal = append(equal, equality{f, "x"})
		}
		return equal
	}
	newest := []order{{field: "created_at", direction: gcp.Desc}, {field: gcp.DocumentID, direction: gcp.Desc}}
	for name, row := range map[string]struct {
		query  query
		served bool
	}{
		"everything": {query: query{collection: agentCollection}, served: true},
		"equality only": {query: query{collection: agentCollection, equal: with("cloud", "cell")},
			served: true},
		"equality by name": {query: query{collection: agentCollection, equal: own,
			order: []order{{field: gcp.DocumentID, direction: gcp.Asc}}}, served: true},
		"one field": {query: query{collection: agentCollection, until: "work_due_at"}, served: true},
		"merged": {query: query{collection: agentCollection, equal: with("status", "name"),
			order: newest}, served: true},
		"merged and bounded": {query: query{collection: auditCollection, equal: with("action", "actor.id"),
			from: time.Now(), order: newest}, served: true},
		"an undeclared filter": {query: query{collection: agentCollection, equal: with("cloud"), order: newest},
			served: false},
		"one undeclared among two": {query: query{collection: agentCollection, equal: with("status", "cloud"),
			order: newest}, served: false},
		"an undeclared order": {query: query{collection: agentCollection, equal: own, until: "deadline"},
			served: false},
		"two orders": {query: query{collection: agentCollection,
			order: []order{{field: "status", direction: gcp.Asc}, {field: "created_at", direction: gcp.Asc}}},
			served: false},
		"another direction": {query: query{collection: agentCollection, equal: own,
			order: []order{{field: "created_at", direction: gcp.Asc}}}, served: false},
		"another direction of ties": {query: query{collection: agentCollection, equal: own,
			order: []order{{field: "created_at", direction: gcp.Desc}, {field: gcp.DocumentID, direction: gcp.Asc}}},
			served: false},
		"another collection": {query: query{collection: userCollection, equal: own, order: newest},
			served: false},
		"an index switched off": {query: query{collection: agentCollection, equal: with("config")}, served: false},
		"an order switched off": {query: query{collection: auditCollection,
			order: []order{{field: "created_at", direction: gcp.Desc}}}, served: false},
		"without an organization": {query: query{collection: agentCollection,
			equal: []equality{{field: "status", value: "x"}}, order: newest}, served: false},
		"a bound beside the order": {query: query{collection: agentCollection, equal: own, until: "deadline",
			order: newest}, served: false},
	} {
		if err := unserved(d, c.structured(t, row.query)); (err == nil) != row.served {
			t.Errorf("%s: %v, want served %t", name, err, row.served)
		}
	}
}

// structured is a query as it is sent.
func (c *Client) structured(t *testing.T, q query) *firestorepb.StructuredQuery {
	t.Helper()
	raw, err := c.firestoreQuery(q).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	var request firestorepb.RunQueryRequest
	if err := proto.Unmarshal(raw, &request); err != nil {
		t.Fatal(err)
	}
	return request.GetStructuredQuery()
}

// TestEveryFilterIsServed asks for every combination of the filters of the audit log and of agents, with and without
// bounds.
func TestEveryFilterIsServed(t *testing.T) {
	t.Parallel()
	c, d := open(t, "", Options{}), readIndexes(t)
	newest := []order{{field: "created_at", direction: gcp.Desc}, {field: gcp.DocumentID, direction: gcp.Desc}}
	for chosen := range 1 << 6 {
		pick := func(bit int) string { return strings.Repeat("x", chosen>>bit&1) }
		at := func(bit int) time.Time { return time.Time{}.AddDate(chosen>>bit&1, 0, 0) }
		entries := auditQuery("o", audit.Filter{
			ActorID: pick(0), Action: pick(1), TargetID: pick(2), Outcome: pick(3), From: at(4), To: at(5),
		})
		agents := agentQuery("o",
			agent.Filter{Status: agent.Status(pick(0)), Plan: pick(1), Region: pick(2), Name: pick(3)})
		for _, q := range []query{entries, agents} {
			q.order = newest
			if err := unserved(d, c.structured(t, q)); err != nil {
				t.Errorf("filters %06b: %v", chosen, err)
			}
		}
	}
}
