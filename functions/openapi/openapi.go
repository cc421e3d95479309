// Package openapi generates an OpenAPI 3.1 document from routes. Everything in it is derived from the values that serve
// requests: paths, parameters and bodies from a route's types, headers from the responses, statuses from its access,
// input and declared errors. What cannot be derived is an error that says where to add it. The package does not define
// any route.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agents.example/controlplane/shared/function"
)

// Options are the parts of the document that cannot be derived from routes.
type Options struct {
	Title string
	// Version is the version of the API.
	Version string
	// Description is Markdown.
	Description string
	// Samples has code that calls an operation, by the operation's id.
	Samples map[string][]Sample
}

// Sample is code that calls an operation, as x-codeSamples of the document has it.
type Sample struct {
	// Language selects the coloring; Label is what people choose by.
	Language string `json:"lang"`
	Label    string `json:"label"`
	Source   string `json:"source"`
}

// Describe returns the document of routes as indented JSON. It is deterministic.
func Describe(routes []function.Route, o Options) ([]byte, error) {
	d := &describer{schemas: newSchemas(), used: map[string]bool{}}
	paths := map[string]map[string]*operation{}
	tags := map[string]bool{}
	for _, r := range routes {
		op, err := d.operation(r)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.Name, err)
		}
		op.Samples = o.Samples[r.Name]
		path := plainPath(r.Path)
		if paths[path] == nil {
			paths[path] = map[string]*operation{}
		}
		paths[path][strings.ToLower(r.Method)] = op
		tags[op.Tags[0]] = true
	}
	components, err := d.components()
	if err != nil {
		return nil, err
	}
	return encode(document{
		OpenAPI: "3.1.0",
		Info:    info{Title: o.Title, Version: o.Version, Description: strings.TrimSpace(o.Description)},
		Servers: []server{{URL: "/"}}, Security: []requirement{{bearer: {}}},
		Tags:  slices.DeleteFunc(groups(), func(g group) bool { return !tags[g.Name] }),
		Paths: paths, Components: components,
	})
}

// describer collects the components that operations refer to.
type describer struct {
	schemas *schemas
	// used holds the names of the referenced components other than schemas.
	used map[string]bool
}

// components returns the referenced components. Error bodies come first, because they add schemas.
func (d *describer) components() (components, error) {
	responses, err := d.responses()
	if err != nil {
		return components{}, err
	}
	c := components{
		Schemas: d.schemas.named, Responses: responses, Headers: map[string]header{},
		Parameters: map[string]parameter{},
		SecuritySchemes: map[string]securityScheme{bearer: {
			Type: "http", Scheme: "bearer", BearerFormat: "JWT or API key",
			Description: "A session token of the identity provider, or an API key of the control plane (`so_...`).",
		}},
	}
	for name, h := range headers() {
		if d.used[headerPrefix+name] {
			c.Headers[name] = h
		}
	}
	for name, p := range parameters() {
		if d.used[parameterPrefix+name] {
			c.Parameters[name] = p
		}
	}
	return c, nil
}

// reference returns a reference to a component and records that it is used.
func (d *describer) reference(prefix, name string) reference {
	d.used[prefix+name] = true
	return reference{Ref: prefix + name}
}

func encode(doc document) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(doc)
	return b.Bytes(), err
}
