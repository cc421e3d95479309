package client

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
)

// unmarshalOpen decodes an object into a struct, and the fields that the struct does not have into extra. No number of
// those may fail it: they are the client's own, and one agent must not hide a list.
func unmarshalOpen(b []byte, fields any, extra *map[string]any) error {
	if err := json.Unmarshal(b, fields); err != nil {
		return err
	}
	all := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&all); err != nil {
		return err
	}
	for f := range reflect.TypeOf(fields).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(all, name)
	}
	for name, value := range all {
		all[name] = withFloats(value)
	}
	*extra = all
	return nil
}

// maxExact is the highest integer up to which a float64 holds all integers.
const maxExact = 1 << 53

// withFloats replaces the numbers in a value by float64, as package json does. Integers that a float64 would change,
// such as ids of other services, and numbers that it cannot hold stay json.Number.
func withFloats(value any) any {
	switch v := value.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil || math.Abs(f) >= maxExact && !strings.ContainsAny(v.String(), ".eE") {
			return v
		}
		return f
	case []any:
		for i := range v {
			v[i] = withFloats(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = withFloats(v[name])
		}
	}
	return value
}

// marshalOpen encodes a struct together with further fields. The struct's own fields win.
func marshalOpen(fields any, extra map[string]any) ([]byte, error) {
	own, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	all := map[string]any{}
	for name, value := range extra {
		all[name] = value
	}
	var known map[string]json.RawMessage
	if err := json.Unmarshal(own, &known); err != nil {
		return nil, err
	}
	for name, value := range known {
		all[name] = value
	}
	return json.Marshal(all)
}
