package functiontest

import (
	"encoding/json"
	"maps"
	"reflect"
	"testing"

	"agents.example/controlplane/shared/function"
)

// Sample is a valid request of a route.
type Sample struct {
	// Body is empty for a route that takes none.
	Body string
	// Path has the path parameters that the example names.
	Path map[string]string
}

// Example returns the example of a route's input, the one that the description of the interface shows.
func Example(t testing.TB, r function.Route) Sample {
	t.Helper()
	shown, ok := reflect.Zero(r.Handle.Input).Interface().(function.Exampler)
	if !ok {
		return Sample{}
	}
	b, err := json.Marshal(shown.Example())
	if err != nil {
		t.Fatalf("the example of %s: %v", r.Name, err)
	}
	var parts struct {
		Body json.RawMessage   `json:"body"`
		Path map[string]string `json:"path"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		t.Fatalf("the example of %s: %v", r.Name, err)
	}
	maps.DeleteFunc(parts.Path, func(_, value string) bool { return value == "" })
	return Sample{Body: string(parts.Body), Path: parts.Path}
}

// TakesBody reports whether a route takes a body.
func TakesBody(t testing.TB, r function.Route) bool {
	t.Helper()
	s, err := function.Schema(r.Handle.Input)
	if err != nil {
		t.Fatalf("the input of %s: %v", r.Name, err)
	}
	return s.Properties["body"] != nil
}
