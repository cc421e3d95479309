// Package openapi describes routes as an OpenAPI 3.1 document. Everything in it is derived from the values that serve:
// paths, parameters and bodies from a route's types, headers from what its answers set, statuses from its access, its
// input and the kinds of errors it names. It knows no particular route. What it can't derive is an error that says
// where to add it.
package openapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agents.example/controlplane/shared/function"
)

// Options is what a document says that no route knows.
type Options struct {
	Title string
	// Version is the version of the interface.
	Version string
	// Description is Markdown.
	Description string
}

// Describe makes the document of routes as indented JSON. The same routes always make the same bytes.
func Describe(routes []function.Route, o Options) ([]byte, error) {
	d := &describer{schemas: newSchemas(), used: map[string]bool{}}
	paths := map[string]map[string]*operation{}
	tags := map[string]bool{}
	for _, r := range routes {
		op, err := d.operation(r)
		if err != nil {
			return nil, fmt.Errorf("describe %s: %w", r.Name, err)
		}
		if paths[r.Path] == nil {
			paths[r.Path] = map[string]*operation{}
		}
		paths[r.Path][strings.ToLower(r.Method)] = op
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

// describer collects what operations refer to.
type describer struct {
	schemas *schemas
	// used holds the names of the components of other kinds that operations refer to.
	used map[string]bool
}

// components describes what operations refer to. Error bodies come first: their schemas are components, too.
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

// refer refers to a component and remembers that it has to be there.
func (d *describer) refer(prefix, name string) reference {
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
