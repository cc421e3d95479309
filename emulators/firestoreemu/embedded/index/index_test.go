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
      {"fieldPath": "o", "order": "ASCENDING"}, {"fieldPath": "t", "order": "DESCENDING"}, {"fieldPath": "__name__", "order": "DESCENDING"}]},
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

// ask writes a query in short: "o = t <" filters, and "t DESC" orders.
func ask(t *testing.T, collection, filters, orders string) *structuredquery.Query {
	t.Helper()
	q := &firestorepb.StructuredQuery{From: []*firestorepb.StructuredQuery_CollectionSelector{{CollectionId: collection}}}
	and := &firestorepb.StructuredQuery_CompositeFilter{Op: firestorepb.StructuredQuery_CompositeFilter_AND}
	words := strings.Fields(filters)
	for i := 0; i < len(words); i += 2 {
		op := map[string]firestorepb.StructuredQuery_FieldFilter_Operator{
			"=": firestorepb.StructuredQuery_FieldFilter_EQUAL, "<": firestorepb.StructuredQuery_FieldFilter_LESS_THAN,
			"has": firestorepb.StructuredQuery_FieldFilter_ARRAY_CONTAINS,
		}[words[i+1]]
		and.Filters = append(and.Filters, &firestorepb.StructuredQuery_Filter{FilterType: &firestorepb.StructuredQuery_Filter_FieldFilter{
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
			Field:     &firestorepb.StructuredQuery_FieldReference{FieldPath: words[i]},
			Direction: firestorepb.StructuredQuery_Direction(firestorepb.StructuredQuery_Direction_value[words[i+1]+"ENDING"]),
		})
	}
	parsed, err := structuredquery.Parse(q)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestMissing(t *testing.T) {
	t.Parallel()
	declared, err := index.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		collection, filters, orders string
		// missing are the fields of the index that is missing; empty is none.
		missing string
	}{
		"everything":                     {"c", "", "", ""},
		"by name":                        {"c", "", "__name__ ASC", ""},
		"by name, backwards":             {"c", "", "__name__ DESC", "__name__ DESC"},
		"equality":                       {"c", "a = b =", "", ""},
		"equality by name":               {"c", "a = b =", "__name__ ASC", ""},
		"equality by name, backwards":    {"c", "a =", "__name__ DESC", "a ASC __name__ DESC"},
		"one range":                      {"c", "a <", "", ""},
		"one order":                      {"c", "", "a DESC", ""},
		"one order with the name askew":  {"c", "", "a DESC __name__ ASC", "a DESC __name__ ASC"},
		"one order and its range":        {"c", "a <", "a DESC", ""},
		"an array":                       {"c", "a has", "", ""},
		"the declared one":               {"c", "o =", "t DESC", ""},
		"the declared one with a range":  {"c", "o = t <", "t DESC", ""},
		"the name goes without saying":   {"c", "s =", "t DESC __name__ DESC", ""},
		"two merged":                     {"c", "o = s =", "t DESC", ""},
		"three merged":                   {"c", "o = s = tags has", "t DESC", ""},
		"one too few to merge":           {"c", "o = x =", "t DESC", "o ASC x ASC t DESC __name__ DESC"},
		"the wrong way":                  {"c", "o =", "t ASC", "o ASC t ASC __name__ ASC"},
		"a range without an order":       {"c", "o = t <", "", "o ASC t ASC __name__ ASC"},
		"an order too many":              {"c", "o =", "t DESC u DESC", "o ASC t DESC u DESC __name__ DESC"},
		"two orders":                     {"c", "", "a ASC b ASC", "a ASC b ASC __name__ ASC"},
		"two ranges":                     {"c", "b < a <", "", "a ASC b ASC __name__ ASC"},
		"without the equality":           {"c", "", "t DESC a ASC", "t DESC a ASC __name__ ASC"},
		"another collection":             {"d", "o =", "t DESC", "o ASC t DESC __name__ DESC"},
		"declared for collection groups": {"c", "g =", "t ASC", "g ASC t ASC __name__ ASC"},
		"equality of an array's element": {"c", "tags =", "t DESC", "tags ASC t DESC __name__ DESC"},
		"switched off":                   {"c", "off =", "", "off ASC"},
		"switched off, beside another":   {"c", "a = off =", "", "off ASC"},
		"below what is switched off":     {"c", "off.x <", "", "off.x ASC"},
		"switched on again":              {"c", "off.on <", "", ""},
		"half of it":                     {"c", "", "half ASC", ""},
		"the other half":                 {"c", "", "half DESC", "half DESC"},
		"switched off elsewhere":         {"d", "off =", "", ""},
	} {
		var got []string
		if missing := declared.Missing(ask(t, row.collection, row.filters, row.orders)); missing != nil {
			for _, f := range missing.Fields {
				got = append(got, f.FieldPath, strings.TrimSuffix(f.Order+f.ArrayConfig, "ENDING"))
			}
		}
		if strings.Join(got, " ") != row.missing {
			t.Errorf("%s: missing %q, want %q", name, got, row.missing)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	missing := index.Declared{}.Missing(ask(t, "agents", "organization_id =", "created_at DESC"))
	for database, link := range map[string]string{
		"projects/p/databases/(default)": "https://console.firebase.google.com/v1/r/project/p/firestore/indexes?create_composite=",
		"projects/p/databases/eu":        "https://console.firebase.google.com/v1/r/project/p/firestore/databases/eu/indexes?create_composite=",
	} {
		err := missing.Error(database)
		text := status.Convert(err).Message()
		_, rest, found := strings.Cut(text, "The query requires an index. You can create it here: "+link)
		encoded, line, _ := strings.Cut(rest, "\n")
		if status.Code(err) != codes.FailedPrecondition || !found {
			t.Fatalf("%v", err)
		}
		const want = `The index file lacks: {"collectionGroup":"agents","queryScope":"COLLECTION","fields":[` +
			`{"fieldPath":"organization_id","order":"ASCENDING"},{"fieldPath":"created_at","order":"DESCENDING"},{"fieldPath":"__name__","order":"DESCENDING"}]}`
		if line != want {
			t.Errorf("line %s", line)
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
		if linked.GetName() != database+"/collectionGroups/agents/indexes/_" || len(fields) != 3 || fields[1].GetFieldPath() != "created_at" ||
			fields[1].GetOrder() != adminpb.Index_IndexField_DESCENDING {
			t.Errorf("the link makes %v", &linked)
		}
		// The declared line ends the complaint.
		declared, err := index.Parse([]byte(`{"indexes": [` + strings.TrimPrefix(line, "The index file lacks: ") + `]}`))
		if err != nil || declared.Missing(ask(t, "agents", "organization_id =", "created_at DESC")) != nil {
			t.Errorf("after declaring it: %v", err)
		}
	}
}
