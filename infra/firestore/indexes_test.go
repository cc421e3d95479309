package firestore

import (
	"context"
	"slices"
	"testing"
	"time"

	gcp "cloud.google.com/go/firestore"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestore/embedded/index"
	asked "agents.example/controlplane/emulators/firestore/embedded/query"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/page"
)

// The official emulator answers every query; the service, as the embedded emulator, answers those that an index serves. So every query
// that a test of this package sends is held against the declared indexes, whatever answers it.

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
	parsed, err := asked.Parse(q)
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
		ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption,
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
		if err := unserved(d, request.GetStructuredQuery()); (err == nil) != row.served {
			t.Errorf("%s: %v, want served %t", name, err, row.served)
		}
	}
}

// TestAuditLogIsServed sends every query that the audit log's filters make.
func TestAuditLogIsServed(t *testing.T) {
	t.Parallel()
	c := open(t, "", Options{})
	ctx := identity.With(t.Context(), identity.Caller{ID: "u", OrganizationID: "o", Role: identity.RoleAdmin})
	for set := range 1 << 6 {
		has := func(bit int, text string) string {
			if set&(1<<bit) == 0 {
				return ""
			}
			return text
		}
		f := audit.Filter{ActorID: has(0, "a"), Action: has(1, "b"), TargetID: has(2, "c"), Outcome: has(3, "succeeded")}
		if set&(1<<4) != 0 {
			f.From = time.Now()
		}
		if set&(1<<5) != 0 {
			f.To = time.Now()
		}
		if _, err := c.AuditLog().List(ctx, f, page.Request{}); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}
