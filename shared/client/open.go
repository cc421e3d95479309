package client

import (
	"encoding/json"
	"reflect"
	"strings"
)

// unmarshalOpen decodes an object into a struct, and the fields that the struct does not have into extra.
func unmarshalOpen(b []byte, fields any, extra *map[string]any) error {
	if err := json.Unmarshal(b, fields); err != nil {
		return err
	}
	all := map[string]any{}
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for f := range reflect.TypeOf(fields).Elem().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(all, name)
	}
	*extra = all
	return nil
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
