package function

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
)

// Schemer is implemented by types that carry their own JSON Schema, such as a string with a length.
type Schemer interface {
	JSONSchema() *infer.Schema
}

// Enumeration is implemented by string types with a closed set of values.
type Enumeration interface {
	Values() []string
}

// Check is a rule that JSON Schema can't say. It sees the body as decoded, whatever the schema said of it, so that all
// violations of a request come in one answer.
type Check func(body map[string]any) []Violation

// UUID is a path parameter or field that holds an id. It decodes into the canonical lower-case form.
type UUID string

// JSONSchema implements Schemer.
func (UUID) JSONSchema() *infer.Schema { return &infer.Schema{Type: "string", Format: "uuid"} }

// UnmarshalJSON implements json.Unmarshaler.
func (u *UUID) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	id, err := uuid.Parse(s)
	*u = UUID(id.String())
	return err
}

// trimKeyword marks strings whose surrounding white space is removed before they are validated.
const trimKeyword = "x-trim-whitespace"

// Trimmed is the schema of a string that is trimmed and then has min to max characters.
func Trimmed(minimum, maximum int) *infer.Schema {
	return &infer.Schema{Type: "string", MinLength: &minimum, MaxLength: &maximum,
		Extra: map[string]any{trimKeyword: true}}
}

// Integer is the schema of a whole number between two bounds, with a default.
func Integer(minimum, maximum float64, standard any) *infer.Schema {
	s := &infer.Schema{Type: "integer", Minimum: &minimum, Maximum: &maximum}
	if b, err := json.Marshal(standard); err == nil && standard != nil {
		s.Default = b
	}
	return s
}

// inputSchema is the schema of a whole request, in the form that describes it and in the form that validates it.
type inputSchema struct {
	description *infer.Schema
	compiled    *validator.Schema
	checks      []Check
}

// schemaOf makes the schema of an input on first use: a function that serves one route pays for one.
func schemaOf(input reflect.Type, checks []Check) func() (*inputSchema, error) {
	return sync.OnceValues(func() (*inputSchema, error) {
		description, err := Schema(input)
		if err != nil {
			return nil, err
		}
		compiled, err := compile(description)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", input, err)
		}
		return &inputSchema{description: description, compiled: compiled, checks: checks}, nil
	})
}

// Schema infers the JSON Schema of a Go type. Unknown properties are allowed, as the interface ignores them.
func Schema(t reflect.Type) (*infer.Schema, error) { return SchemaWith(t, nil) }

// SchemaWith infers the schema of a type with the schemas of some types below it given, such as references to where
// they are described.
func SchemaWith(t reflect.Type, given map[reflect.Type]*infer.Schema) (*infer.Schema, error) {
	types := map[reflect.Type]*infer.Schema{
		reflect.TypeFor[time.Time](): {Type: "string", Format: "date-time"},
	}
	collect(t, types, map[reflect.Type]bool{})
	maps.Copy(types, given)
	s, err := infer.ForType(t, &infer.ForOptions{TypeSchemas: types})
	if err != nil {
		return nil, fmt.Errorf("infer the schema of %s: %w", t, err)
	}
	loosen(s)
	return s, nil
}

// collect finds the types below t that carry their own schema.
func collect(t reflect.Type, types map[reflect.Type]*infer.Schema, seen map[reflect.Type]bool) {
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
		// No type beside the values: a value of another type is reported as no member, once.
		types[t] = &infer.Schema{Enum: values}
		return
	}
	switch t.Kind() { //nolint:exhaustive // the other kinds have nothing below them
	case reflect.Struct:
		for i := range t.NumField() {
			collect(t.Field(i).Type, types, seen)
		}
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		collect(t.Elem(), types, seen)
	}
}

// loosen lets structs take unknown properties, keeps null out of arrays that are not pointers, and lets it into
// enumerations that are.
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
	// a pointer to an enumeration, which has no type that null could stand beside
	if s.Enum != nil && len(s.Types) == 1 {
		s.Types, s.Enum = nil, append(slices.Clip(s.Enum), nil)
	}
	for _, p := range s.Properties {
		loosen(p)
	}
	loosen(s.Items)
	loosen(s.AdditionalProperties)
}

func compile(s *infer.Schema) (*validator.Schema, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	doc, err := validator.UnmarshalJSON(strings.NewReader(string(b)))
	if err != nil {
		return nil, err
	}
	c := validator.NewCompiler()
	c.AssertFormat()
	c.RegisterFormat(&validator.Format{Name: "uuid", Validate: checkUUID})
	c.RegisterFormat(&validator.Format{Name: "date-time", Validate: checkTime})
	if err := c.AddResource("request.json", doc); err != nil {
		return nil, err
	}
	return c.Compile("request.json")
}

// checkUUID accepts the four textual forms of RFC 9562 and its ancestors: hyphenated, simple, braced and URN.
func checkUUID(v any) error {
	s, ok := v.(string)
	if !ok {
		return nil // the type is another keyword's business
	}
	if len(s) == 38 && (s[0] != '{' || s[37] != '}') {
		return fmt.Errorf("braces do not match")
	}
	return uuid.Validate(s)
}
