package function

import (
	"encoding/json"
	"reflect"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// Nullable is a field of a body in which null means something else than a missing field. A pointer would not tell them
// apart.
type Nullable[T any] struct {
	// Given is true if the body has the field.
	Given bool
	// Value is nil for null.
	Value *T
}

// Inner is the type of values that are not null.
func (Nullable[T]) Inner() reflect.Type { return reflect.TypeFor[T]() }

// JSONSchema implements Schemer. T is a struct whose schema can be inferred.
func (n Nullable[T]) JSONSchema() *infer.Schema {
	s, err := Schema(n.Inner())
	if err != nil {
		panic(err) //nolint:forbidigo // a type of this code base
	}
	s.Type, s.Types = "", []string{s.Type, "null"} // null first is a slice, for which loosen removes it
	return s
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Nullable[T]) UnmarshalJSON(b []byte) error {
	n.Given = true
	return json.Unmarshal(b, &n.Value)
}

// MarshalJSON implements json.Marshaler, for examples.
func (n Nullable[T]) MarshalJSON() ([]byte, error) { return json.Marshal(n.Value) }
