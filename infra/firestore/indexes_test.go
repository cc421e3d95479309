package firestore

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
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

// The official emulator answers every query. The service and the embedded emulator only answer queries that an index
// serves. So the tests check every query that they send against the declared indexes.

var parsedIndexes = sync.OnceValues(func() (index.Declared, error) { return index.Parse(indexesJSON) })

func declaredIndexes(t *testing.T) index.Declared {
	t.Helper()
	d, err := parsedIndexes()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// checkServed returns an error if no declared index serves the query.
func checkServed(d index.Declared, q *firestorepb.StructuredQuery) error {
	parsed, err := structuredquery.Parse(q)
	if err != nil {
		return err
	}
	if missing := d.Missing(parsed); missing != nil {
		return missing.Error("projects/p/databases/" + gcp.DefaultDatabaseID)
	}
	return nil
}

// checkIndexes makes an interceptor that fails the test for a query that no index serves.
func checkIndexes(t *testing.T) []grpc.DialOption {
	d := declaredIndexes(t)
	return []grpc.DialOption{aroundStreams(func(_ string, open openStream) (grpc.ClientStream, error) {
		s, err := open()
		return queryStream{s, func(q *firestorepb.StructuredQuery) {
			if err := checkServed(d, q); err != nil {
				t.Error(err)
			}
		}}, err
	})}
}

// queryStream checks the queries that are sent.
type queryStream struct {
	grpc.ClientStream
	check func(*firestorepb.StructuredQuery)
}

func (s queryStream) SendMsg(m any) error {
	if r, ok := m.(*firestorepb.RunQueryRequest); ok {
		s.check(r.GetStructuredQuery())
	}
	return s.ClientStream.SendMsg(m)
}

func TestCheckServed_FindsMissingIndexes(t *testing.T) {
	t.Parallel()
	c, d := open(t, "", Options{}), declaredIndexes(t)
	ownOnly := []equality{{field: "organization_id", value: "o"}}
	ownAnd := func(fields ...string) []equality {
		equal := slices.Clone(ownOnly)
		for _, f := range fields {
			equal = append(equal, equality{f, "x"})
		}
		return equal
	}
	newest := []order{{field: "created_at", direction: gcp.Desc}, {field: gcp.DocumentID, direction: gcp.Desc}}
	agentsBy := func(equal []equality, orders ...order) query {
		return query{collection: agentCollection, equal: equal, order: orders}
	}
	by := func(field string, direction gcp.Direction) order { return order{field: field, direction: direction} }
	for name, row := range map[string]struct {
		query  query
		served bool
	}{
		"all documents":              {query: agentsBy(nil), served: true},
		"equalities only":            {query: agentsBy(ownAnd("plan", "region")), served: true},
		"equality by document id":    {query: agentsBy(ownOnly, by(gcp.DocumentID, gcp.Asc)), served: true},
		"a bound on one field":       {query: query{collection: agentCollection, until: "work_due_at"}, served: true},
		"two merged indexes":         {query: agentsBy(ownAnd("status", "name"), newest...), served: true},
		"an undeclared filter":       {query: agentsBy(ownAnd("cloud"), newest...), served: false},
		"an undeclared direction":    {query: agentsBy(ownOnly, by("created_at", gcp.Asc)), served: false},
		"a filter without its index": {query: agentsBy(ownAnd("config")), served: false},
		"two merged indexes with a bound": {
			query: query{
				collection: auditCollection, equal: ownAnd("action", "actor.id"), from: time.Now(), order: newest,
			},
			served: true,
		},
		"a declared and an undeclared filter": {
			query: agentsBy(ownAnd("status", "cloud"), newest...), served: false,
		},
		"an undeclared bound": {
			query: query{collection: agentCollection, equal: ownOnly, until: "deadline"}, served: false,
		},
		"two undeclared orders": {
			query: agentsBy(nil, by("status", gcp.Asc), by("created_at", gcp.Asc)), served: false,
		},
		"an undeclared direction of ties": {
			query: agentsBy(ownOnly, by("created_at", gcp.Desc), by(gcp.DocumentID, gcp.Asc)), served: false,
		},
		"another collection": {
			query: query{collection: userCollection, equal: ownOnly, order: newest}, served: false,
		},
		"an order by a field without index": {
			query: query{collection: auditCollection, order: []order{by("created_at", gcp.Desc)}}, served: false,
		},
		"a filter without the organization": {
			query: agentsBy([]equality{{field: "status", value: "x"}}, newest...), served: false,
		},
		"a bound on another field than the order": {
			query:  query{collection: agentCollection, equal: ownOnly, until: "deadline", order: newest},
			served: false,
		},
	} {
		err := checkServed(d, c.structuredQuery(t, row.query))
		if got := err == nil; got != row.served {
			t.Errorf("%s: served %t (%v), want %t", name, got, err, row.served)
		}
	}
}

// structuredQuery encodes a query as it is sent.
func (c *Client) structuredQuery(t *testing.T, q query) *firestorepb.StructuredQuery {
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

// TestIndexes_ServeEveryFilter tries every combination of the filters of agents and of the audit log.
func TestIndexes_ServeEveryFilter(t *testing.T) {
	t.Parallel()
	c, d := open(t, "", Options{}), declaredIndexes(t)
	newest := []order{{field: "created_at", direction: gcp.Desc}, {field: gcp.DocumentID, direction: gcp.Desc}}
	for chosen := range 1 << 6 {
		text := func(bit int) string { return strings.Repeat("x", chosen>>bit&1) }
		bound := func(bit int) time.Time { return time.Time{}.AddDate(chosen>>bit&1, 0, 0) }
		entries := auditQuery("o", audit.Filter{
			ActorID: text(0), Action: text(1), TargetID: text(2), Outcome: text(3), From: bound(4), To: bound(5),
		})
		agents := agentQuery("o",
			agent.Filter{Status: agent.Status(text(0)), Plan: text(1), Region: text(2), Name: text(3)})
		for _, q := range []query{entries, agents} {
			q.order = newest
			if err := checkServed(d, c.structuredQuery(t, q)); err != nil {
				t.Errorf("filters %06b: %v", chosen, err)
			}
		}
	}
}

// exemptFields lists the fields of a collection that have no index.
func exemptFields(t *testing.T, collection string) []string {
	var exempt []string
	for _, o := range declaredIndexes(t).FieldOverrides {
		if o.CollectionGroup == collection && len(o.Indexes) == 0 {
			exempt = append(exempt, o.FieldPath)
		}
	}
	return exempt
}

// TestIndexes_TheTimesOfRateLimitsHaveNone: they grow with every call that they limit, so an index on them would limit
// the calls of all organizations together.
func TestIndexes_TheTimesOfRateLimitsHaveNone(t *testing.T) {
	t.Parallel()
	for _, f := range []struct{ collection, field string }{
		{organizationCollection, creationsField},
		{organizationCollection, secretWritesField},
		{organizationCollection, exportsField},
		{budgetCollection, "full_at"},
	} {
		if exempt := exemptFields(t, f.collection); !slices.Contains(exempt, f.field) {
			t.Errorf("exempt fields of %s %v, want %s among them", f.collection, exempt, f.field)
		}
	}
}

// TestStoredFields_HaveNoIndexUnlessQueried: an index on a growing time limits the writes of all agents together,
// and every other index makes each write of an agent slower and dearer.
func TestStoredFields_HaveNoIndexUnlessQueried(t *testing.T) {
	t.Parallel()
	queried := []string{
		"organization_id",
		"name",
		"plan",
		"region",
		"status",
		"work_due_at", "calls_due_at",
		"created_at",
		"watched_by",
	}
	exempt := exemptFields(t, agentCollection)
	for _, f := range agentFields(&agent.Agent{}, new(string)) {
		switch isQueried, isExempt := slices.Contains(queried, f.name), slices.Contains(exempt, f.name); {
		case isQueried && isExempt:
			t.Errorf("field %s has no index, and queries use it", f.name)
		case !isQueried && !isExempt && *update:
			addExemption(t, f.name)
		case !isQueried && !isExempt:
			t.Errorf("field %s has an index that no query uses; if none will, run %s", f.name, howToUpdate)
		}
	}
	exempt = exemptFields(t, deletionCollection)
	for _, f := range deletionRecordFields(&agent.DeletionRecord{}) {
		if !slices.Contains(exempt, f.name) {
			t.Errorf("field %s of deletions has an index, and no query uses it; declare it in indexes.json", f.name)
		}
	}
}

// TestIndexes_FitTheDatabase holds the number of indexes, and of fields with settings, to the smallest limit
// that Firestore documents for each. An apply beyond it fails half-way. If there is no room left, remove exemptions of
// fields that documents no longer have; or exempt all fields, with the field * of the collection __default__, and
// declare only the fields that queries use.
func TestIndexes_FitTheDatabase(t *testing.T) {
	t.Parallel()
	const limit, room = 200, 20
	d := declaredIndexes(t)
	for what, n := range map[string]int{"indexes": len(d.Indexes), "fieldOverrides": len(d.FieldOverrides)} {
		if n == 0 || n > limit-room {
			t.Errorf("indexes.json has %d %s, want at most %d: Firestore allows %d", n, what, limit-room, limit)
		}
	}
}

// addExemption adds a field of agents to those without an index.
func addExemption(t *testing.T, field string) {
	t.Helper()
	const file, list = "indexes.json", "\"fieldOverrides\": [\n"
	b, err := os.ReadFile(file)
	must(t, err)
	line := fmt.Sprintf("    {\"collectionGroup\": %q, \"fieldPath\": %q, \"indexes\": []},\n", agentCollection, field)
	must(t, os.WriteFile(file, bytes.Replace(b, []byte(list), []byte(list+line), 1), 0o600))
}
