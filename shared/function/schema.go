package function

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"
)

// Schemer is implemented by types that carry their own JSON Schema, such as a string with a length.
type Schemer interface {
	JSONSchema() *infer.Schema
}

// Enumeration is implemented by string types with a closed set of values.
type Enumeration interface {
	Values() []string
}

// List is implemented by list types with bounds of how many elements they have.
type List interface {
	ItemBounds() (least, most int)
}

// Check is a rule for the body that JSON Schema cannot express. It runs even if the body violates the schema, so that
// one response lists all violations.
type Check func(body map[string]any) []Violation

// UUID is an id in a path parameter or field. It decodes into the canonical lower-case form.
type UUID string

// JSONSchema implements Schemer.
func (UUID) JSONSchema() *infer.Schema { return &infer.Schema{Type: "string", Format: "uuid"} }

// UnmarshalText implements encoding.TextUnmarshaler.
func (u *UUID) UnmarshalText(b []byte) error {
	id, err := uuid.ParseBytes(b)
	*u = UUID(id.String())
	return err
}

// textKeyword marks texts of people. relax trims them before validation, and unshowable refuses some.
const textKeyword = "x-text"

// Text returns the schema of a text that a person gives something, such as a name. It has minimum to maximum characters
// after trimming, and none of those that unshowable refuses.
func Text(minimum, maximum int) *infer.Schema {
	return &infer.Schema{
		Type: "string", MinLength: &minimum, MaxLength: &maximum, Extra: map[string]any{textKeyword: true},
	}
}

// Integer returns the schema of an integer between two bounds, with a default or nil.
func Integer(minimum, maximum float64, standard any) *infer.Schema {
	s := &infer.Schema{Type: "integer", Minimum: &minimum, Maximum: &maximum}
	if b, err := json.Marshal(standard); err == nil && standard != nil {
		s.Default = b
	}
	return s
}

// inputSchema is the schema of a request, with its compiled patterns.
type inputSchema struct {
	description *infer.Schema
	patterns    map[string]*regexp.Regexp
	checks      []Check
}

// schemaOf returns a function that builds the schema of an input on first use. A process that serves one route builds
// only one schema.
func schemaOf(input reflect.Type, checks []Check) func() (*inputSchema, error) {
	return sync.OnceValues(func() (*inputSchema, error) {
		description, err := Schema(input)
		if err != nil {
			return nil, err
		}
		patterns := map[string]*regexp.Regexp{}
		if err := enforce(description, patterns); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", input, err)
		}
		return &inputSchema{description, patterns, checks}, nil
	})
}

// Schema infers the JSON Schema of a Go type. The schema allows unknown properties, because the API ignores them.
func Schema(t reflect.Type) (*infer.Schema, error) { return SchemaWith(t, nil) }

// SchemaWith infers the schema of a type like Schema, but uses the given schemas for the types inside it. Example: the
// OpenAPI generator passes references to shared components.
func SchemaWith(t reflect.Type, given map[reflect.Type]*infer.Schema) (*infer.Schema, error) {
	types := map[reflect.Type]*infer.Schema{
		reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"},
	}
	collectSchemas(t, types, map[reflect.Type]bool{})
	maps.Copy(types, given)
	if err := addLists(types); err != nil {
		return nil, err
	}
	s, err := infer.ForType(t, &infer.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, fmt.Errorf("infer the schema of %s: %w", t, err)
	}
	loosen(s)
	return s, nil
}

// addLists makes schemas of the lists that collectSchemas found, from those of their elements.
func addLists(types map[reflect.Type]*infer.Schema) error {
	for t, s := range types {
		if list, ok := reflect.Zero(t).Interface().(List); ok && s == nil {
			elements, err := infer.ForType(t.Elem(), &infer.ForOptions{TypeSchemas: types})
			if err != nil {
				return fmt.Errorf("infer the schema of %s: %w", t.Elem(), err)
			}
			least, most := list.ItemBounds()
			types[t] = &infer.Schema{Type: "array", Items: elements, MinItems: &least, MaxItems: &most}
			if least == 0 {
				types[t].MinItems = nil
			}
		}
	}
	return nil
}

// collectSchemas adds the types inside t that define their own schema, values or bounds to types.
func collectSchemas(t reflect.Type, types map[reflect.Type]*infer.Schema, seen map[reflect.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch zero := reflect.Zero(t); {
	case t.Implements(reflect.TypeFor[Schemer]()) && t.Kind() != reflect.Pointer:
		types[t] = zero.Interface().(Schemer).JSONSchema()
		return
	case t.Implements(reflect.TypeFor[Enumeration]()) && t.Kind() == reflect.String:
		values := []any{}
		for _, v := range zero.Interface().(Enumeration).Values() {
			values = append(values, v)
		}
		// The schema has no type, only values. Otherwise a value of another type would be reported twice.
		types[t] = &infer.Schema{Enum: values}
		return
	case t.Implements(reflect.TypeFor[List]()) && t.Kind() == reflect.Slice:
		types[t] = nil // addLists adds it
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds have no inner types
	case reflect.Struct:
		for i := range t.NumField() {
			collectSchemas(t.Field(i).Type, types, seen)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collectSchemas(t.Elem(), types, seen)
	}
}

// loosen adapts an inferred schema to the API's rules: objects allow unknown properties, arrays do not allow null, and
// pointers to enumerations do.
func loosen(s *infer.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 || (s.AdditionalProperties != nil && s.AdditionalProperties.Not != nil) {
		s.AdditionalProperties = nil
	}
	if len(s.Types) == 2 && s.Types[0] == "null" && s.Types[1] == "array" {
		s.Type, s.Types = "array", nil
	}
	// A pointer to an enumeration: null must be one of the values, because the schema has no type to add it to.
	if s.Enum != nil && len(s.Types) == 1 {
		s.Types, s.Enum = nil, append(slices.Clip(s.Enum), nil)
	}
	for _, p := range s.Properties {
		loosen(p)
	}
	loosen(s.Items)
	loosen(s.AdditionalProperties)
}
