package firestore

import (
	stdflag "flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/audit/seal"
	"agents.example/controlplane/shared/billing"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/metrics"
	"agents.example/controlplane/shared/organization"
	"agents.example/controlplane/shared/release"
	"agents.example/controlplane/shared/secret"
	"agents.example/controlplane/shared/webhook"
)

// update adds new fields to the files that list stored fields. It changes and removes none.
var update = stdflag.Bool("update", false, "add new stored fields to testdata/stored_fields.txt and to indexes.json")

// howToUpdate is the advice of a test that found a new field.
const howToUpdate = "go test ./infra/firestore -run TestStored -update"

// TestStoredFields_KeepTheirNames compares the fields of every document with testdata/stored_fields.txt, which names
// the collection, the stored field and the field of the record. Releases read each other's documents, so a line may be
// added, but no line may change.
func TestStoredFields_KeepTheirNames(t *testing.T) {
	t.Parallel()
	const file = "testdata/stored_fields.txt"
	b, err := os.ReadFile(file)
	must(t, err)
	want := strings.Split(strings.TrimSpace(string(b)), "\n")
	var got []string
	for collection, r := range storedRecords() {
		got = append(got, describeFields(collection+" ", "", r.record, r.fields)...)
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("documents of other releases have the field %q, which is renamed or gone", line)
		}
	}
	added := slices.DeleteFunc(got, func(line string) bool { return slices.Contains(want, line) })
	if len(added) > 0 && *update {
		all := slices.Sorted(slices.Values(slices.Concat(want, added)))
		must(t, os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o600))
	} else if len(added) > 0 {
		t.Errorf("new fields: if no release stored them under another name, run %s:\n%s", howToUpdate,
			strings.Join(added, "\n"))
	}
}

// TestDocumentIDs_StayTheSame holds the ids that functions derive. With another id, a release does not find what a
// former one wrote.
func TestDocumentIDs_StayTheSame(t *testing.T) {
	t.Parallel()
	const want = "org_1~75a16a56-acd7-5b1b-a544-d27459715a4c"
	if got := membershipID("org_1", "user_1"); got != want {
		t.Errorf("the id of a membership is %s, want %s", got, want)
	}
}

// storedRecord is a record with the fields that a document stores of it.
type storedRecord struct {
	record any // a pointer
	fields fields
}

// storedRecords are the records of each collection, and the answer that a document of one of them holds.
func storedRecords() map[string]storedRecord {
	a, k, u, e := &agent.Agent{}, &apikey.Key{}, &organization.User{}, &audit.Entry{}
	o := &billing.Account{}
	given, event, m, l := &answer{}, &appliedEvent{}, &membership{}, &lease{}
	s, p, operation, shown := &metrics.Snapshot{}, &metrics.Progress{}, &secret.Operation{}, &agentAnswer{}
	limit, sealed, events := &budget{}, &seal.Seal{}, &eventRecord{}
	catalog, rolled := &image.Image{}, &release.Release{}
	reached, notices := &egressDay{}, &egressNotices{}
	hook, delivery, deletion := &webhook.Webhook{}, &webhook.Delivery{}, &agent.DeletionRecord{}
	return map[string]storedRecord{
		agentCollection:                   {a, agentFields(a, new(string))},
		organizationCollection:            {o, slices.Concat(organizationFields(&o.Organization), accountFields(o))},
		keyCollection:                     {k, keyFields(k)},
		userCollection:                    {u, userFields(u)},
		auditCollection:                   {e, entryFields(e)},
		sealCollection:                    {sealed, sealFields(sealed)},
		sealHeadCollection:                {sealed, headFields(sealed)},
		idempotencyCollection:             {given, answerFields(given)},
		idempotencyCollection + " answer": {shown, agentAnswerFields(shown)},
		eventCollection:                   {events, eventRecordFields(events)},
		appliedEventCollection:            {event, appliedEventFields(event)},
		membershipCollection:              {m, membershipFields(m)},
		leaseCollection:                   {l, leaseFields(l)},
		metricsCollection:                 {s, metricsFields(s)},
		progressCollection:                {p, progressFields(p)},
		operationCollection:               {operation, historyFields(operation)},
		budgetCollection:                  {limit, budgetFields(limit)},
		webhookCollection:                 {hook, webhookFields(hook)},
		deliveryCollection:                {delivery, deliveryFields(delivery)},
		deletionCollection:                {deletion, deletionRecordFields(deletion)},
		imageCollection:                   {catalog, imageFields(catalog)},
		releaseCollection:                 {rolled, releaseFields(rolled)},
		egressDayCollection:               {reached, egressDayFields(reached)},
		egressNoteCollection:              {notices, egressNoticesFields(notices)},
	}
}

// variable is a variable of a record. A struct has the address of its first field, but another type.
type variable struct {
	address uintptr
	of      reflect.Type
}

// describeFields returns a line for each field, with the variable that it stores; "-" for one outside the record.
func describeFields(stored, path string, record any, f fields) (lines []string) {
	names := map[variable]string{}
	nameVariables(reflect.ValueOf(record).Elem(), path, names)
	for _, field := range f {
		if g, ok := field.place.(groupPlace); ok {
			lines = append(lines, describeFields(stored+field.name+".", path, record, g.of)...)
			continue
		}
		at := reflect.ValueOf(field.place).FieldByName("at")
		name := names[variable{at.Pointer(), at.Type().Elem()}]
		if name == "" {
			name = "-"
		}
		lines = append(lines, stored+field.name+" "+name)
		if c, ok := field.place.(container); ok {
			element, of := c.element()
			lines = append(lines, describeFields(stored+field.name+".", name+".", element, of)...)
		}
	}
	return lines
}

// container is a place that stores records of another type.
type container interface{ element() (record any, f fields) }

func (p optionalPlace[T]) element() (any, fields) { e := new(T); return e, p.of(e) }

func (p arrayPlace[T]) element() (any, fields) { e := new(T); return e, p.of(e) }

// nameVariables names the fields of a struct, and their fields, by their paths.
func nameVariables(v reflect.Value, path string, names map[variable]string) {
	for i := range v.NumField() {
		f, name := v.Field(i), path+v.Type().Field(i).Name
		names[variable{f.UnsafeAddr(), f.Type()}] = name
		if f.Kind() == reflect.Struct {
			nameVariables(f, name+".", names)
		}
	}
}
