package evaluate_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"agents.example/controlplane/terraform/evaluate"
)

func load(t *testing.T, given map[string]cty.Value) *evaluate.Module {
	t.Helper()
	m, err := evaluate.Load("testdata", given)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// written is the value as JSON. Whatever is unknown in it makes it "unknown".
func written(t *testing.T, v cty.Value) string {
	t.Helper()
	if !v.IsWhollyKnown() {
		return "unknown"
	}
	b, err := ctyjson.Marshal(v, v.Type())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestResources_ExpandInstancesAndDynamicBlocks(t *testing.T) {
	t.Parallel()
	const house = `"house":"test_house.this.id"`
	rooms := cty.ObjectVal(map[string]cty.Value{
		"hall": cty.ObjectVal(map[string]cty.Value{
			"size": cty.NumberIntVal(5), "doors": cty.TupleVal([]cty.Value{cty.StringVal("x"), cty.StringVal("y")}),
		}),
		"attic": cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(7)}),
	})
	tests := map[string]struct {
		given map[string]cty.Value
		typ   string
		want  map[string]string
	}{
		"single": {
			typ: "test_house", want: map[string]string{"this": `{"address":"1 Main St"}`},
		},
		"for_each, with a default inside a default": {
			typ: "test_room",
			want: map[string]string{
				`this["kitchen"]`: `{"area":12,"door":[{"lock":[{"label":"0-a"},{"label":"0-b"}],"name":"front"}],` + house +
					`,"name":"prod-kitchen","window":[{"count":2,"glazing":"double"}]}`,
			},
		},
		"for_each, given": {
			given: map[string]cty.Value{"rooms": rooms}, typ: "test_room",
			want: map[string]string{
				`this["attic"]`: `{"area":7,"door":[{"lock":[{"label":"0-a"},{"label":"0-b"}],"name":"front"}],` + house +
					`,"name":"prod-attic","window":[{"count":2,"glazing":"double"}]}`,
				`this["hall"]`: `{"area":5,"door":[{"lock":[{"label":"0-a"},{"label":"0-b"}],"name":"x"},` +
					`{"lock":[{"label":"1-a"},{"label":"1-b"}],"name":"y"}],` + house +
					`,"name":"prod-hall","window":[{"count":2,"glazing":"double"}]}`,
			},
		},
		"for_each of a resource": {
			typ:  "test_painting",
			want: map[string]string{`room["kitchen"]`: "unknown"},
		},
		"count": {
			typ: "test_key",
			want: map[string]string{
				"spare[0]": `{"label":"spare 0"}`,
				"spare[1]": `{"label":"spare 1"}`,
			},
		},
		"count of zero": {
			given: map[string]cty.Value{"spares": cty.NumberIntVal(0)}, typ: "test_key", want: map[string]string{},
		},
		"reference to counted instances": {
			typ:  "test_ring",
			want: map[string]string{"keys": `{"fits":"test_key.spare[0].id","labels":["spare 0","spare 1"]}`},
		},
		"no such type": {typ: "google_garden", want: map[string]string{}},
	}
	for name, row := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found, err := load(t, row.given).Resources(row.typ)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for address, v := range found {
				got[address] = written(t, v)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("instances of %s (-want +got):\n%s", row.typ, diff)
			}
		})
	}
}

// TestResources_KnowArgumentsOfOthers reads what one resource takes from another.
func TestResources_KnowArgumentsOfOthers(t *testing.T) {
	t.Parallel()
	found, err := load(t, nil).Resources("test_painting")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, v := range found[`room["kitchen"]`].AsValueMap() {
		got[name] = written(t, v)
	}
	want := map[string]string{
		"room": `"prod-kitchen"`, "door": `"0-b"`, "glazing": `["double"]`,
		"handle": "unknown", // no argument sets it
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

func TestValues_AreThoseOfTerraform(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	got := map[string]string{}
	for _, name := range m.Locals() {
		v, err := m.Local(name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = written(t, v)
	}
	for _, name := range []string{"house", "counts"} {
		v, err := m.Output(name)
		if err != nil {
			t.Fatal(err)
		}
		got["output "+name] = written(t, v)
	}
	v, err := m.Variable("rooms")
	if err != nil {
		t.Fatal(err)
	}
	got["variable"] = written(t, v)
	want := map[string]string{
		"names": `{"kitchen":"prod-kitchen"}`, "greeting": `"Hello PROD-KITCHEN!\n"`, "range": `"10.127.0.0/16"`,
		"chosen": `"third"`, "secret": "unknown", "output house": `"test_house.this.id"`,
		"output counts": "[1,2,4,1]",
		"variable":      `{"kitchen":{"color":null,"doors":["front"],"owner":{"name":"landlord"},"size":12}}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if want := []string{"test_house", "test_key", "test_painting", "test_ring", "test_room"}; !slices.Equal(
		m.Types(), want) {
		t.Errorf("types = %q, want %q", m.Types(), want)
	}
}

func TestInvalid_NamesRefusedVariables(t *testing.T) {
	t.Parallel()
	for value, want := range map[string][]string{"prod": nil, "Prod 1": {"environment"}} {
		got, err := load(t, map[string]cty.Value{"environment": cty.StringVal(value)}).Invalid()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("environment %q: invalid = %q, %v; want %q", value, got, err, want)
		}
	}
}

func TestRefused_NamesResourcesWithAFalsePrecondition(t *testing.T) {
	t.Parallel()
	for size, want := range map[int64][]string{99: nil, 100: {"test_room.this"}} {
		room := cty.ObjectVal(map[string]cty.Value{"size": cty.NumberIntVal(size)})
		given := map[string]cty.Value{"rooms": cty.ObjectVal(map[string]cty.Value{"hall": room, "attic": room})}
		got, err := load(t, given).Refused()
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("size %d: refused = %q, %v; want %q", size, got, err, want)
		}
	}
}

// TestErrors_SayWhatIsWrong holds that mistakes in a module are errors, and not unknown values.
func TestErrors_SayWhatIsWrong(t *testing.T) {
	t.Parallel()
	const (
		each  = "locals { a = google_d.e }\nresource \"google_d\" \"e\" { for_each = "
		house = "resource \"google_b\" \"c\" {}\n"
	)
	for name, row := range map[string]struct{ source, want string }{
		"circle":            {source: "locals {\n a = local.b\n b = local.a\n}", want: "local.a refers to itself"},
		"undeclared local":  {source: "locals { a = local.b }", want: "local.b is not declared"},
		"undeclared":        {source: "locals { a = google_b.c.id }", want: "google_b.c is not declared"},
		"required variable": {source: "variable \"v\" {}\nlocals { a = var.v }", want: "var.v is required"},
		"wrong type": {
			source: "variable \"v\" {\n type = number\n default = \"x\"\n}\nlocals { a = var.v }",
			want:   "number is required",
		},
		"unknown function":  {source: "locals { a = nope(1) }", want: "no function named \"nope\""},
		"key by computed":   {source: house + each + "toset([google_b.c.id]) }", want: "only the provider knows"},
		"list":              {source: each + "[\"x\"] }", want: "want a map or a set of strings"},
		"null":              {source: each + "null }", want: "is null"},
		"missing attribute": {source: "locals { a = { b = 1 }.c }", want: "does not have an attribute named \"c\""},
		"subnet too far":    {source: "locals { a = cidrsubnet(\"10.0.0.0/8\", 2, 4) }", want: "has no subnet 4"},
		"count by computed": {
			source: house + strings.Replace(each, "for_each", "count", 1) + "length(google_b.c.id) }",
			want:   "only the provider knows",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "main.tf"), []byte(row.source+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			m, err := evaluate.Load(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			if v, err := m.Local("a"); err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("local.a = %#v, %v; want an error with %q", v, err, row.want)
			}
		})
	}
}

func TestLoad_RefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	if _, err := evaluate.Load(t.TempDir(), nil); err == nil {
		t.Error("a directory without files was loaded")
	}
	if _, err := evaluate.Load("testdata", map[string]cty.Value{"enviroment": cty.StringVal("x")}); err == nil {
		t.Error("a misspelled variable was taken")
	}
}
