//go:build unix

package terraform_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/terraform/evaluate"
)

// restoredIn is the prefix of the names of what the restored database has.
const restoredIn = "projects/project-1/databases/agents-test-2"

// listedIndex is an index as gcloud lists it.
type listedIndex struct {
	Name       string        `json:"name"`
	QueryScope string        `json:"queryScope"`
	Fields     []listedField `json:"fields"`
}

type listedField struct {
	FieldPath   string `json:"fieldPath"`
	Order       string `json:"order,omitempty"`
	ArrayConfig string `json:"arrayConfig,omitempty"`
}

// restoredDatabase is what gcloud lists of a database that was restored.
type restoredDatabase struct {
	indexes []listedIndex
	fields  []map[string]string
}

// declaredDatabase lists what indexes.json declares. As in Firestore, the ids of indexes say nothing.
func declaredDatabase(t *testing.T) restoredDatabase {
	t.Helper()
	var declared struct {
		Indexes []struct {
			CollectionGroup, QueryScope string
			Fields                      []listedField
		}
		FieldOverrides []struct{ CollectionGroup, FieldPath string }
	}
	if err := json.Unmarshal([]byte(read(t, "../infra/firestore/indexes.json")), &declared); err != nil {
		t.Fatal(err)
	}
	d := restoredDatabase{fields: []map[string]string{
		{"name": restoredIn + "/collectionGroups/__default__/fields/*"},
	}}
	for n, i := range declared.Indexes {
		d.indexes = append(d.indexes, listedIndex{
			Name:       fmt.Sprintf("%s/collectionGroups/%s/indexes/CICAgOjX%04d", restoredIn, i.CollectionGroup, n),
			QueryScope: i.QueryScope, Fields: i.Fields,
		})
	}
	slices.Reverse(d.indexes) // the list has another order than the declaration
	for _, f := range declared.FieldOverrides {
		d.fields = append(d.fields, map[string]string{
			"name": restoredIn + "/collectionGroups/" + f.CollectionGroup + "/fields/" + f.FieldPath,
		})
	}
	return d
}

// newRestore is a working copy with the module, and a Google Cloud in which the database can be restored.
func newRestore(t *testing.T, d restoredDatabase) project {
	t.Helper()
	p := newProject(t, 1)
	p.settings(t)
	for _, pattern := range []string{"*.tf", "cell", "functions.json"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if name != "backend.tf" && name != "versions.tf" { // settings copies that one
				link(t, name, filepath.Join(p.root, "terraform", name))
			}
		}
	}
	link(t, "../infra", filepath.Join(p.root, "infra"))
	link(t, "../shared", filepath.Join(p.root, "shared"))
	p.answer(t, "operations", "op-1,,\nop-1,True,\n")
	p.answerJSON(t, "firestore-composite", d.indexes)
	p.answerJSON(t, "firestore-fields", d.fields)
	p.answer(t, "firestore-schedules", "[]\n")
	return p
}

func link(t *testing.T, from, to string) {
	t.Helper()
	path, err := filepath.Abs(from)
	if err == nil {
		err = os.Symlink(path, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (p project) answerJSON(t *testing.T, name string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	p.answer(t, name, string(b)+"\n")
}

// module evaluates the module in the working copy.
func (p project) module(t *testing.T, database string) *module {
	t.Helper()
	given := required()
	given["project_id"], given["database"] = cty.StringVal("project-1"), cty.StringVal(database)
	m, err := evaluate.Load(filepath.Join(p.root, "terraform"), given)
	if err != nil {
		t.Fatal(err)
	}
	return &module{m}
}

// imports are the ids of the import blocks, by the address that they are imported to.
func (m *module) imports(t *testing.T) map[string]string {
	t.Helper()
	ids := map[string]string{}
	for _, b := range m.Files()["restored.tf"].Blocks {
		if b.Type != "import" {
			continue
		}
		v, err := m.Evaluate(b.Body.Attributes["for_each"].Expr)
		if err != nil {
			t.Fatal(err)
		}
		r := b.Body.Attributes["to"].Expr.Range()
		to := read(t, "restored.tf")[r.Start.Byte:r.End.Byte]
		for it := v.ElementIterator(); it.Next(); {
			key, id := it.Element()
			address := to
			if key.Type() == cty.String {
				address = strings.ReplaceAll(to, "each.key", `"`+key.AsString()+`"`)
			}
			if ids[address] != "" {
				t.Errorf("%s is imported twice", address)
			}
			ids[address] = id.AsString()
		}
	}
	return ids
}

// warnings are the messages of the assertions that fail.
func (m *module) warnings(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, b := range m.Blocks()["check.restored"].Body.Blocks {
		holds, err := m.Evaluate(b.Body.Attributes["condition"].Expr)
		if err != nil {
			t.Fatal(err)
		}
		if holds.True() {
			continue
		}
		message, err := m.Evaluate(b.Body.Attributes["error_message"].Expr)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, message.AsString())
	}
	return all
}

// TestRestore_ImportsEveryIndexOnceUnderItsID restores a backup. Then each index that Terraform would create is
// imported under the name that the list has for its fields.
func TestRestore_ImportsEveryIndexOnceUnderItsID(t *testing.T) {
	t.Parallel()
	d := declaredDatabase(t)
	p := newRestore(t, d)
	calls, out := p.succeed(t, "restore.sh", "--backup=BACKUP", "agents-test-2", "project-1")
	if want := "firestore databases restore --source-backup=BACKUP --destination-database=agents-test-2\n"; !strings.
		Contains(calls, want) {
		t.Errorf("the script called\n%s\nwant %s", calls, want)
	}
	if !strings.Contains(out, "slept 30") {
		t.Errorf("the script did not wait for the restore:\n%s", out)
	}
	m := p.module(t, "agents-test-2")
	want := map[string]string{"google_firestore_database.records": restoredIn}
	for address, planned := range m.resources(t, "google_firestore_index") {
		for _, listed := range d.indexes {
			if form(listed) == plannedForm(t, planned) {
				want["google_firestore_index."+address] = listed.Name
			}
		}
	}
	for address, planned := range m.resources(t, "google_firestore_field") {
		want["google_firestore_field."+address] = restoredIn + "/collectionGroups/" + text(t, planned, "collection") +
			"/fields/" + text(t, planned, "field")
	}
	if len(want) != 1+len(d.indexes)+len(d.fields)-1 {
		t.Errorf("the module plans %d resources of the database that a backup has, want %d", len(want),
			len(d.indexes)+len(d.fields))
	}
	if diff := cmp.Diff(want, m.imports(t)); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
	if warnings := m.warnings(t); warnings != nil {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

// form is what distinguishes an index from others.
func form(i listedIndex) string {
	all := []string{strings.Split(i.Name, "/")[5], i.QueryScope}
	for _, f := range i.Fields {
		all = append(all, f.FieldPath, f.Order+f.ArrayConfig)
	}
	return strings.Join(all, " ")
}

func plannedForm(t *testing.T, planned cty.Value) string {
	t.Helper()
	all := []string{text(t, planned, "collection"), text(t, planned, "query_scope")}
	for _, f := range known(find(t, planned, "fields")) {
		kind := strings.ReplaceAll(text(t, f, "order")+text(t, f, "array_config"), "(none)", "")
		all = append(all, text(t, f, "field_path"), kind)
	}
	return strings.Join(all, " ")
}

// TestRestore_ReportsWhatIsMissingAndWhatIsUnknown restores a backup of an older release.
func TestRestore_ReportsWhatIsMissingAndWhatIsUnknown(t *testing.T) {
	t.Parallel()
	d := declaredDatabase(t)
	all := len(d.indexes) + len(d.fields) // the default of all fields is none, and the database is one
	at := slices.IndexFunc(d.indexes, func(i listedIndex) bool {
		return strings.Contains(i.Name, "/webhook_deliveries/") && i.Fields[0].FieldPath == "webhook_id"
	})
	d.indexes[at].Fields[0].FieldPath = "former_field"
	d.fields[len(d.fields)-1]["name"] = restoredIn + "/collectionGroups/agents/fields/former"
	p := newRestore(t, d)
	p.answer(t, "operations", "")
	p.succeed(t, "restore.sh", "agents-test-2", "project-1")
	m := p.module(t, "agents-test-2")
	if got := len(m.imports(t)); got != all-2 {
		t.Errorf("%d imports, want %d: all but the two that are missing", got, all-2)
	}
	warnings := strings.Join(m.warnings(t), "\n")
	for _, want := range []string{
		"Terraform creates: index webhook_deliveries webhook_id created_at __name__; field ",
		"index webhook_deliveries COLLECTION former_field ASCENDING", "field agents former",
	} {
		if !strings.Contains(warnings, want) {
			t.Errorf("the warnings do not have %q:\n%s", want, warnings)
		}
	}
}

// TestRestore_ImportsOnlyIntoTheDatabaseInUse restores a database that is only looked at, or not used yet.
func TestRestore_ImportsOnlyIntoTheDatabaseInUse(t *testing.T) {
	t.Parallel()
	p := newRestore(t, declaredDatabase(t))
	p.succeed(t, "restore.sh", "--backup=BACKUP", "agents-test-2", "project-1")
	m := p.module(t, "agents-test")
	if got := m.imports(t); len(got) > 0 {
		t.Errorf("imports = %v, want none: another database is in use", slices.Sorted(maps.Keys(got)))
	}
	if warnings := m.warnings(t); warnings != nil {
		t.Errorf("warnings = %q, want none", warnings)
	}
}

// TestRestore_CanBeRepeated interrupts a restore after its request.
func TestRestore_CanBeRepeated(t *testing.T) {
	t.Parallel()
	p := newRestore(t, declaredDatabase(t))
	p.answer(t, "refusals", "operations list\n")
	args := []string{"--at=2026-01-31T08:15:00Z", "agents-test-2", "project-1"}
	calls, out, err := p.run(t, "restore.sh", args...)
	const clone = "databases clone --source-database=projects/project-1/databases/agents-test " +
		"--snapshot-time=2026-01-31T08:15:00Z --destination-database=agents-test-2"
	if err == nil || !strings.Contains(calls, clone) {
		t.Fatalf("the first run: %v\n%s%s", err, calls, out)
	}
	calls, out = p.succeed(t, "restore.sh", args...)
	if strings.Contains(calls, "clone") || !strings.Contains(out, "is not restored again") {
		t.Errorf("the second run restored again:\n%s%s", calls, out)
	}
	if imports := p.module(t, "agents-test-2").imports(t); len(imports) == 0 {
		t.Error("the second run wrote nothing to import")
	}
}

// TestRestore_TakesNoDatabaseOfAnotherRestore runs the script with the name of a database that exists, such as that of
// a practice: its records are not those that the operator asked for.
func TestRestore_TakesNoDatabaseOfAnotherRestore(t *testing.T) {
	t.Parallel()
	const ofBackup = "2026-02-01T00:00:00.123456Z,projects/project-1/locations/eur3/backups/B\n"
	const ofTime = "2026-02-01T00:00:00.123456Z,\n"
	for name, row := range map[string]struct {
		arg, database string
		says          string // empty if it succeeds
	}{
		"the same backup":    {arg: "--backup=projects/project-1/locations/eur3/backups/B", database: ofBackup},
		"another backup":     {arg: "--backup=C", database: ofBackup, says: "is of the backup B"},
		"a minute before it": {arg: "--at=2026-01-31T08:15:00Z", database: ofTime},
		"a minute after it": {
			arg: "--at=2026-02-28T08:15:00Z", database: ofTime, says: "was made at 2026-02-01T00:00:00",
		},
		"a minute, and a backup": {arg: "--at=2026-01-31T08:15:00Z", database: ofBackup, says: "is of the backup B"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRestore(t, declaredDatabase(t))
			p.answer(t, "operations", "")
			p.answer(t, "database-agents-test-2", row.database)
			calls, out, err := p.run(t, "restore.sh", row.arg, "agents-test-2", "project-1")
			if (err != nil) != (row.says != "") || !strings.Contains(out, row.says) {
				t.Errorf("error = %v, want one: %t, which says %q\n%s", err, row.says != "", row.says, out)
			}
			_, missing := os.Stat(filepath.Join(p.root, "terraform", "restored.json"))
			if (missing == nil) != (row.says == "") || strings.Contains(calls, "databases restore") {
				t.Errorf("writes restored.json: %t, want %t\n%s", missing == nil, row.says == "", calls)
			}
		})
	}
}

// TestRestore_RefusesWhatItMustNotDo runs the script with arguments that are wrong, and with a restore that fails.
func TestRestore_RefusesWhatItMustNotDo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args       []string
		operations string
		wantOutput string
	}{
		"no database": {args: []string{"--backup=B", "project-1"}, wantOutput: "usage:"},
		"a backup and a time": {
			args: []string{"--backup=B", "--at=T", "agents-test-2", "project-1"}, wantOutput: "usage:",
		},
		"the database in use": {args: []string{"--backup=B", "agents-test", "project-1"}, wantOutput: "is in use"},
		"another project": {
			args: []string{"--backup=B", "agents-test-2", "project-2"}, wantOutput: "is not of project-2",
		},
		"a restore that fails": {
			args: []string{"--backup=B", "agents-test-2", "project-1"}, operations: "op-1,True,no such backup\n",
			wantOutput: "the restore failed: op-1,True,no such backup",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRestore(t, declaredDatabase(t))
			p.answer(t, "operations", row.operations)
			_, out, err := p.run(t, "restore.sh", row.args...)
			if err == nil || !strings.Contains(out, row.wantOutput) {
				t.Errorf("restore.sh = %v with the output\n%s\nwant a failure with %q", err, out, row.wantOutput)
			}
			if _, err := os.Stat(filepath.Join(p.root, "terraform", "restored.json")); err == nil {
				t.Error("restored.json was written")
			}
		})
	}
}

// TestRestore_ForgetsTheWholeFormerDatabase compares the command in README.md with the module. What stays in the state
// would be replaced: Terraform would delete it in the former database.
func TestRestore_ForgetsTheWholeFormerDatabase(t *testing.T) {
	t.Parallel()
	_, command, _ := strings.Cut(strings.ReplaceAll(read(t, "README.md"), "\\\n", ""), "state rm ")
	command, _, _ = strings.Cut(command, "\n")
	var want []string
	for address := range load(t, nil).Blocks() {
		if strings.HasPrefix(address, "google_firestore_") {
			want = append(want, address)
		}
	}
	got := strings.Fields(command)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("terraform state rm in README.md (-want +got):\n%s", diff)
	}
}

// TestRestore_KeepsRightsOnTheFormerDatabaseUntilTheNextIsUsed holds that Terraform grants new rights before it revokes
// former ones, wherever a condition names the database.
func TestRestore_KeepsRightsOnTheFormerDatabaseUntilTheNextIsUsed(t *testing.T) {
	t.Parallel()
	former, next := load(t, nil), load(t, map[string]cty.Value{"database": cty.StringVal("agents-prod-2")})
	replaced := 0
	for _, typ := range former.Types() {
		after := next.resources(t, typ)
		for address, before := range former.resources(t, typ) {
			const condition = "condition.0.expression"
			if text(t, before, condition) == text(t, after[address], condition) {
				continue
			}
			replaced++
			name, _, _ := strings.Cut(address, "[")
			if !createsBeforeItDestroys(t, former, typ+"."+name) {
				t.Errorf("%s.%s loses its right on the former database before services use the next: set "+
					"create_before_destroy", typ, address)
			}
		}
	}
	if replaced == 0 {
		t.Error("no right names the database")
	}
}

func createsBeforeItDestroys(t *testing.T, m *module, block string) bool {
	t.Helper()
	for _, b := range m.Blocks()[block].Body.Blocks {
		if b.Type != "lifecycle" || b.Body.Attributes["create_before_destroy"] == nil {
			continue
		}
		v, err := m.Evaluate(b.Body.Attributes["create_before_destroy"].Expr)
		if err != nil {
			t.Fatal(err)
		}
		return v.True()
	}
	return false
}
