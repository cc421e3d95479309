package functiontest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"

	"agents.example/controlplane/shared/function"
)

// Sample is a valid request of a route.
type Sample struct {
	// Body is empty for a route that takes none.
	Body string
	// Path has the path parameters that the example names.
	Path map[string]string
	// Query has the parameters that the route needs.
	Query url.Values
}

// Example returns the example of a route's input, the one that the description of the interface shows. It fails for a
// body without an example.
func Example(r function.Route) (Sample, error) {
	sample, err := exampleOf(r)
	if err == nil {
		sample.Query, err = requiredQuery(r)
	}
	return sample, err
}

// requiredQuery has the examples of the parameters that a route needs.
func requiredQuery(r function.Route) (url.Values, error) {
	s, err := function.Schema(r.Handle.Input)
	if err != nil || s.Properties["query"] == nil {
		return nil, err
	}
	query := url.Values{}
	for _, name := range s.Properties["query"].Required {
		for _, example := range s.Properties["query"].Properties[name].Examples {
			query.Set(name, fmt.Sprint(example))
		}
	}
	return query, nil
}

func exampleOf(r function.Route) (Sample, error) {
	if r.Streams() {
		return Sample{Body: "The content of the file."}, nil
	}
	shown, ok := reflect.Zero(r.Handle.Input).Interface().(function.Exampler)
	if !ok {
		takes, err := TakesBody(r)
		if takes {
			err = fmt.Errorf("%s takes a body and shows none: give its input an Example", r.Name)
		}
		return Sample{}, err
	}
	b, err := json.Marshal(shown.Example())
	if err != nil {
		return Sample{}, fmt.Errorf("encode the example of %s: %w", r.Name, err)
	}
	var parts struct {
		Body json.RawMessage   `json:"body"`
		Path map[string]string `json:"path"`
	}
	if err := json.Unmarshal(b, &parts); err != nil {
		return Sample{}, fmt.Errorf("decode the example of %s: %w", r.Name, err)
	}
	maps.DeleteFunc(parts.Path, func(_, value string) bool { return value == "" })
	return Sample{Body: string(parts.Body), Path: parts.Path}, nil
}

// TakesBody reports whether a route takes a body.
func TakesBody(r function.Route) (bool, error) {
	s, err := function.Schema(r.Handle.Input)
	if err != nil {
		return false, fmt.Errorf("describe the input of %s: %w", r.Name, err)
	}
	return s.Properties["body"] != nil, nil
}
