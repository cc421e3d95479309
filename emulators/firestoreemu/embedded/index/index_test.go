package index_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"cloud.google.com/go/firestore/apiv1/admin/adminpb"
	"cloud.google.com/go/firestore/apiv1/firestorepb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agents.example/controlplane/emulators/firestoreemu/embedded/index"
	"agents.example/controlplane/emulators/firestoreemu/embedded/structuredquery"
)

const file = `{
  "indexes": [
    {"collectionGroup": "c", "queryScope": "COLLECTION", "fields": [
      {"fieldPath": "o", "order": "ASCENDING"}, {"fieldPath": "t", "order": "DESCENDING"},
      {"fieldPath": "__name__", "order": "DESCENDING"}]},
    {"collectionGroup": "c", "queryScope": "COLLECTION", "fields": [
      {"fieldPath": "s", "order": "DESCENDING"}, {"fieldPath": "t", "order": "DESCENDING"}]},
    {"collectionGroup": "c", "queryScope": "COLLECTION", "fields": [
      {"fieldPath": "tags", "arrayConfig": "CONTAINS"}, {"fieldPath": "t", "order": "DESCENDING"}]},
    {"collectionGroup": "c", "queryScope": "COLLECTION_GROUP", "fields": [
      {"fieldPath": "g", "order": "ASCENDING"}, {"fieldPath": "t", "order": "ASCENDING"}]}
  ],
  "fieldOverrides": [
    {"collectionGroup": "c", "fieldPath": "off", "indexes": []},
    {"collectionGroup": "c", "fieldPath": "off.on", "indexes": [{"order": "ASCENDING", "queryScope": "COLLECTION"}]},
    {"collectionGroup": "c", "fieldPath": "half", "indexes": [{"order": "ASCENDING", "queryScope": "COLLECTION"}]}
  ]
}`

// parseQuery builds a query from a short form: "o = t <" filters, and "t DESC" orders.
func parseQuery(t *testing.T, collection, filters, orders string) *structuredquery.Query {
	t.Helper()
	q := &firestorepb.StructuredQuery{From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection}}}
	and := &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND}
	words := strings.Fields(filters)
	for i := 0; i < len(words); i += 2 {
		op := map[string]firestorepb.StructuredQuery_FieldFilter_Operator{
			"=": firestorepb.StructuredQuery_FieldFilter_EQUAL, "<": firestorepb.StructuredQuery_FieldFilter_LESS_THAN,
			"has": firestorepb.StructuredQuery_FieldFilter_ARRAY_CONTAINS,
		}[words[i+1]]
		and.Filters = append(and.Filters,
			&firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
				FieldFilter: &firestorepb.StructuredQuery_FieldFilter{
					Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: words[i]}, Op: op,
					Value: &firestorepb.Value{ValueType: &firestorepb.Value_IntegerValue{IntegerValue: 1}},
				},
			}})
	}
	q.Where = &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_CompositeFilter{CompositeFilter: and}}
	words = strings.Fields(orders)
	for i := 0; i < len(words); i += 2 {
		q.OrderBy = append(q.OrderBy, &firestorepb.StructuredQuery_Order{
			Field: &firestorepb.StructuredQuery_FieldReference{FieldPath: words[i]},
			Direction: firestorepb.StructuredQuery_Direction(firestorepb.StructuredQuery_Direction_value[words[i+1]+
				"ENDING"]),
		})
	}
	parsed, err := structuredquery.Parse(q)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestDeclared_Missing(t *testing.T) {
	t.Parallel()
	declared, err := index.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		collection, filters, orders string
		// missing lists the fields of the missing index; empty means that the query is served.
		missing string
	}{
		"no filter, no order": {collection: "c", filters: "", orders: "", missing: ""},
		"ordered by name":     {collection: "c", filters: "", orders: "__name__ ASC", missing: ""},
		"ordered by descending name": {
			collection: "c", filters: "", orders: "__name__ DESC",
			missing: "__name__ DESC",
		},
		"equalities":                 {collection: "c", filters: "a = b =", orders: "", missing: ""},
		"equalities ordered by name": {collection: "c", filters: "a = b =", orders: "__name__ ASC", missing: ""},
		"equality ordered by descending name": {
			collection: "c", filters: "a =", orders: "__name__ DESC",
			missing: "a ASC __name__ DESC",
		},
		"one range": {collection: "c", filters: "a <", orders: "", missing: ""},
		"one order": {collection: "c", filters: "", orders: "a DESC", missing: ""},
		"one order with the name in the other direction": {
			collection: "c", filters: "", orders: "a DESC __name__ ASC",
			missing: "a DESC __name__ ASC",
		},
		"one order and its range":     {collection: "c", filters: "a <", orders: "a DESC", missing: ""},
		"an array element":            {collection: "c", filters: "a has", orders: "", missing: ""},
		"declared index":              {collection: "c", filters: "o =", orders: "t DESC", missing: ""},
		"declared index with a range": {collection: "c", filters: "o = t <", orders: "t DESC", missing: ""},
		"implicit name order": {
			collection: "c", filters: "s =", orders: "t DESC __name__ DESC",
			missing: "",
		},
		"two merged indexes":   {collection: "c", filters: "o = s =", orders: "t DESC", missing: ""},
		"three merged indexes": {collection: "c", filters: "o = s = tags has", orders: "t DESC", missing: ""},
		"merging misses one equality": {
			collection: "c", filters: "o = x =", orders: "t DESC",
			missing: "o ASC x ASC t DESC __name__ DESC",
		},
		"opposite direction": {
			collection: "c", filters: "o =", orders: "t ASC",
			missing: "o ASC t ASC __name__ ASC",
		},
		"a range without an order": {
			collection: "c", filters: "o = t <", orders: "",
			missing: "o ASC t ASC __name__ ASC",
		},
		"one order too many": {
			collection: "c", filters: "o =", orders: "t DESC u DESC",
			missing: "o ASC t DESC u DESC __name__ DESC",
		},
		"two orders": {
			collection: "c", filters: "", orders: "a ASC b ASC",
			missing: "a ASC b ASC __name__ ASC",
		},
		"two ranges": {
			collection: "c", filters: "b < a <", orders: "",
			missing: "a ASC b ASC __name__ ASC",
		},
		"two orders in different directions": {
			collection: "c", filters: "", orders: "t DESC a ASC",
			missing: "t DESC a ASC __name__ ASC",
		},
		"another collection": {
			collection: "d", filters: "o =", orders: "t DESC",
			missing: "o ASC t DESC __name__ DESC",
		},
		"declared for collection groups": {
			collection: "c", filters: "g =", orders: "t ASC",
			missing: "g ASC t ASC __name__ ASC",
		},
		"array index does not serve an equality": {
			collection: "c", filters: "tags =", orders: "t DESC",
			missing: "tags ASC t DESC __name__ DESC",
		},
		"disabled index":                 {collection: "c", filters: "off =", orders: "", missing: "off ASC"},
		"disabled index and another":     {collection: "c", filters: "a = off =", orders: "", missing: "off ASC"},
		"below a disabled field":         {collection: "c", filters: "off.x <", orders: "", missing: "off.x ASC"},
		"enabled below a disabled field": {collection: "c", filters: "off.on <", orders: "", missing: ""},
		"ascending only":                 {collection: "c", filters: "", orders: "half ASC", missing: ""},
		"descending disabled":            {collection: "c", filters: "", orders: "half DESC", missing: "half DESC"},
		"disabled in another collection": {collection: "d", filters: "off =", orders: "", missing: ""},
	} {
		var got []string
		if missing := declared.Missing(parseQuery(t, row.collection, row.filters, row.orders)); missing != nil {
			for _, f := range missing.Fields {
				got = append(got, f.FieldPath, strings.TrimSuffix(f.Order+f.ArrayConfig, "ENDING"))
			}
		}
		if strings.Join(got, " ") != row.missing {
			t.Errorf("%s: missing index = %q, want %q", name, got, row.missing)
		}
	}
}

func TestComposite_ErrorNamesLinkAndLine(t *testing.T) {
	t.Parallel()
	missing := index.Declared{}.Missing(parseQuery(t, "agents", "organization_id =", "created_at DESC"))
	for database, link := range map[string]string{
		"projects/p/databases/(default)": "https://console.firebase.google.com/v1/r/project/p/firestore/indexes?create_composite=",
		"projects/p/databases/eu":        "https://console.firebase.google.com/v1/r/project/p/firestore/databases/eu/indexes?create_composite=",
	} {
		err := missing.Error(database)
		text := status.Convert(err).Message()
		_, rest, found := strings.Cut(text, "The query requires an index. You can create it here: "+link)
		encoded, line, _ := strings.Cut(rest, "\n")
		if status.Code(err) != codes.FailedPrecondition {
			t.Fatalf("code = %s, want FailedPrecondition", status.Code(err))
		}
		if !found {
			t.Fatalf("message = %q, want one with the link %s", text, link)
		}
		const want = `The index file lacks: {"collectionGroup":"agents","queryScope":"COLLECTION","fields":[` +
			`{"fieldPath":"organization_id","order":"ASCENDING"},{"fieldPath":"created_at","order":"DESCENDING"},{"fieldPath":"__name__","order":"DESCENDING"}]}`
		if line != want {
			t.Errorf("line = %s, want %s", line, want)
		}
		raw, err := base64.RawURLEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		var linked adminpb.Index
		if err := proto.Unmarshal(raw, &linked); err != nil {
			t.Fatal(err)
		}
		fields := linked.GetFields()
		if linked.GetName() != database+"/collectionGroups/agents/indexes/_" || len(fields) != 3 ||
			fields[1].GetFieldPath() != "created_at" ||
			fields[1].GetOrder() != adminpb.Index_IndexField_DESCENDING {
			t.Errorf("index of the link = %v, want the missing one", &linked)
		}
		// Declaring the line serves the query.
		declared, err := index.Parse([]byte(`{"indexes": [` + strings.TrimPrefix(line, "The index file lacks: ") +
			`]}`))
		if err != nil {
			t.Fatal(err)
		}
		if still := declared.Missing(parseQuery(t, "agents", "organization_id =", "created_at DESC")); still != nil {
			t.Errorf("missing index after declaring the line = %v, want none", still)
		}
	}
}
