package openapi

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
)

// amender is implemented by types whose JSON has more to it than their fields tell, such as further properties or a
// format.
type amender interface {
	AmendSchema(s *jsonschema.Schema)
}

// schemas collects the schemas of named types: each stands in the document once, and everything else refers to it.
type schemas struct {
	named map[string]*jsonschema.Schema
	types map[string]reflect.Type
}

func newSchemas() *schemas {
	return &schemas{named: map[string]*jsonschema.Schema{}, types: map[string]reflect.Type{}}
}

// of describes a type; the named types in it become references.
func (s *schemas) of(t reflect.Type) (*jsonschema.Schema, error) {
	if named(t) {
		return s.component(t)
	}
	given := map[reflect.Type]*jsonschema.Schema{}
	if err := s.inside(t, given); err != nil {
		return nil, err
	}
	return s.infer(t, given)
}

// infer describes a type with the schemas of others given.
func (s *schemas) infer(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) (*jsonschema.Schema, error) {
	schema, err := function.SchemaWith(t, given)
	if err != nil {
		return nil, err
	}
	s.tidy(schema)
	return schema, nil
}

// named reports whether a type is described under its own name: structs and enumerations are, unless they say
// themselves what they are.
func named(t reflect.Type) bool {
	if t.Name() == "" || t == reflect.TypeFor[time.Time]() || t.Implements(reflect.TypeFor[function.Schemer]()) {
		return false
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.String &&
		t.Implements(reflect.TypeFor[function.Enumeration]())
}

// component refers to the schema of a named type and makes it on first sight.
func (s *schemas) component(t reflect.Type) (*jsonschema.Schema, error) {
	name := nameOf(t)
	ref := &jsonschema.Schema{Ref: schemaPrefix + name}
	switch known := s.types[name]; {
	case known == t:
		return ref, nil
	case known != nil:
		return nil, fmt.Errorf("%s and %s would both be described as %s: rename one", known, t, name)
	}
	s.types[name] = t
	given := map[reflect.Type]*jsonschema.Schema{}
	if err := s.inside(t, given); err != nil {
		return nil, err
	}
	schema, err := s.infer(t, given)
	if err != nil {
		return nil, err
	}
	if len(schema.Enum) > 0 {
		schema.Type = "string"
	}
	if a, ok := reflect.Zero(t).Interface().(amender); ok {
		a.AmendSchema(schema)
	}
	s.named[name] = schema
	return ref, nil
}

// inside finds the named types that the schema of t, itself written out, refers to. Embedded structs are part of what
// embeds them.
func (s *schemas) inside(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) error {
	switch t.Kind() { //nolint:exhaustive // other kinds hold no types
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return s.refer(t.Elem(), given)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" {
				continue
			}
			if err := s.refer(f.Type, given); err != nil {
				return err
			}
		}
	}
	return nil
}

// refer adds a reference to t, or to the named types in it.
func (s *schemas) refer(t reflect.Type, given map[reflect.Type]*jsonschema.Schema) error {
	if !named(t) {
		if t == reflect.TypeFor[time.Time]() || t.Implements(reflect.TypeFor[function.Schemer]()) {
			return nil
		}
		return s.inside(t, given)
	}
	ref, err := s.component(t)
	given[t] = ref
	return err
}

// tidy writes an inferred schema the way readers of OpenAPI expect it: null last among the types, and beside a
// reference in its own alternative. Keywords that only this program knows are left out.
func (s *schemas) tidy(schema *jsonschema.Schema) {
	if schema == nil {
		return
	}
	schema.Extra = nil
	if len(schema.Types) == 2 && schema.Types[0] == "null" {
		schema.Types = []string{schema.Types[1], "null"}
	}
	if schema.Ref != "" && len(schema.Types) == 1 {
		s.tidyNullableReference(schema)
	}
	for _, p := range schema.Properties {
		s.tidy(p)
	}
	s.tidy(schema.Items)
	s.tidy(schema.AdditionalProperties)
}

func (s *schemas) tidyNullableReference(schema *jsonschema.Schema) {
	target := s.named[strings.TrimPrefix(schema.Ref, schemaPrefix)]
	if target != nil && len(target.Enum) > 0 {
		*schema = jsonschema.Schema{
			Description: schema.Description, Types: []string{target.Type, "null"},
			Enum: append(slices.Clone(target.Enum), nil),
		}
		return
	}
	*schema = jsonschema.Schema{
		Description: schema.Description, AnyOf: []*jsonschema.Schema{{Ref: schema.Ref}, {Type: "null"}},
	}
}

// nameOf names the schema of a type: by the noun of its package, which View stands for, and its own name. Packages of
// machinery are no nouns.
func nameOf(t reflect.Type) string {
	own := strings.TrimSuffix(t.Name(), "View")
	pkg := path.Base(t.PkgPath())
	noun := strings.ToUpper(pkg[:1]) + pkg[1:]
	switch pkg {
	case "function", "identity", "system":
		return own
	case "apikey":
		noun = "APIKey"
	case "organizations":
		noun = "Organization"
	case "subscriptions":
		noun = "Billing"
	}
	if own == "Created" {
		return own + noun
	}
	return noun + own
}
