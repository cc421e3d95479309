package openapi_test

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestDescribe_HasNoUnusedComponent: generators write code for each component.
func TestDescribe_HasNoUnusedComponent(t *testing.T) {
	t.Parallel()
	b := describeAll(t)
	var doc struct {
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	for kind, components := range doc.Components {
		if kind == "securitySchemes" { // a requirement names its scheme without a reference
			continue
		}
		for name := range components {
			if ref := `"#/components/` + kind + "/" + name + `"`; !strings.Contains(string(b), ref) {
				t.Errorf("%s/%s is unused: nothing has the reference %s", kind, name, ref)
			}
		}
	}
}

// TestDescribe_ExplainsOperations: help texts and comments of generated clients come from the description.
func TestDescribe_ExplainsOperations(t *testing.T) {
	t.Parallel()
	for path, item := range loadAll(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.Summary == "" || op.Description == "" {
				t.Errorf("%s %s: summary = %q, description = %q; want both", method, path, op.Summary, op.Description)
			}
			if strings.HasSuffix(op.Summary, ".") {
				t.Errorf("%s %s: summary %q ends with a period, but it is a title", method, path, op.Summary)
			}
			for _, p := range op.Parameters {
				if p.Value.Description == "" {
					t.Errorf("%s %s: parameter %s has no description: add the tag jsonschema to its field",
						method, path, p.Value.Name)
				}
			}
		}
	}
}

// plain are the names of properties that mean the same everywhere.
func plain() []string {
	return []string{"id", "name", "email", "role", "created_at", "updated_at", "action", "stage", "type"}
}

// TestDescribe_ExplainsProperties accepts a property without a description if it has a plain name or if its type, such
// as an enumeration, is named.
func TestDescribe_ExplainsProperties(t *testing.T) {
	t.Parallel()
	schemas := loadAll(t).Components.Schemas
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		for property, s := range schemas[name].Value.Properties {
			if s.Ref == "" && s.Value.Description == "" && !slices.Contains(plain(), property) {
				t.Errorf("%s.%s has no description: add the tag jsonschema to its field", name, property)
			}
		}
	}
}

// TestDescribe_NamesEnumerations: a generator invents a name for an enumeration that has none, and may change it.
func TestDescribe_NamesEnumerations(t *testing.T) {
	t.Parallel()
	doc := loadAll(t)
	for name, s := range doc.Components.Schemas {
		visit(s.Value, func(inner *openapi3.Schema) {
			if inner != s.Value && len(inner.Enum) > 0 {
				t.Errorf("%s has the enumeration %v inline: give its Go type the method Values", name, inner.Enum)
			}
		})
	}
}

// TestDescribe_NamesSchemasForClients: the names are those of types in generated clients.
func TestDescribe_NamesSchemasForClients(t *testing.T) {
	t.Parallel()
	good := regexp.MustCompile(`^[A-Z][A-Za-z]+$`)
	doc := loadAll(t)
	for name := range doc.Components.Schemas {
		if !good.MatchString(name) || strings.HasSuffix(name, "View") {
			t.Errorf("schema %s: want a name that matches %s and has no View", name, good)
		}
	}
}

// visit calls f with a schema and the schemas in it that have no name.
func visit(s *openapi3.Schema, f func(*openapi3.Schema)) {
	f(s)
	inner := append(slices.Collect(maps.Values(s.Properties)), s.Items, s.AdditionalProperties.Schema)
	for _, list := range []openapi3.SchemaRefs{inner, s.AnyOf, s.AllOf, s.OneOf} {
		for _, r := range list {
			if r != nil && r.Ref == "" && r.Value != nil {
				visit(r.Value, f)
			}
		}
	}
}
