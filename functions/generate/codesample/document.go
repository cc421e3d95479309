package codesample

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// document is what samples need to know of an OpenAPI document.
type document struct {
	Paths      map[string]map[string]*operation `json:"paths"`
	Components struct {
		Schemas map[string]*schema `json:"schemas"`
	} `json:"components"`
}

type operation struct {
	ID         string `json:"operationId"`
	Parameters []struct {
		Name     string `json:"name"`
		In       string `json:"in"`
		Required bool   `json:"required"`
		Schema   struct {
			Examples []string `json:"examples"`
		} `json:"schema"`
	} `json:"parameters"`
	RequestBody struct {
		Content map[string]struct {
			Schema  *schema         `json:"schema"`
			Example json.RawMessage `json:"example"`
		} `json:"content"`
	} `json:"requestBody"`
	Security *[]any `json:"security"`
	// Responses are references, except for the successful one.
	Responses map[string]struct {
		Content map[string]struct {
			Schema *schema `json:"schema"`
		} `json:"content"`
	} `json:"responses"`

	document     *document
	method, path string
}

type schema struct {
	Ref                  string             `json:"$ref"`
	Type                 json.RawMessage    `json:"type"` // a name or a list of names
	Format               string             `json:"format"`
	AnyOf                []*schema          `json:"anyOf"`
	Properties           map[string]*schema `json:"properties"`
	Required             []string           `json:"required"`
	Items                *schema            `json:"items"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	ContentSchema        *schema            `json:"contentSchema"`
}

// UnmarshalJSON implements json.Unmarshaler: true is a schema.
func (s *schema) UnmarshalJSON(b []byte) error {
	if string(b) == "true" || string(b) == "false" {
		return nil
	}
	type plain schema
	return json.Unmarshal(b, (*plain)(s))
}

func parse(b []byte) (*document, error) {
	var d document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("parse the OpenAPI document: %w", err)
	}
	return &d, nil
}

// operations returns all operations in a stable order.
func (d *document) operations() []*operation {
	var all []*operation
	for _, p := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[p])) {
			o := d.Paths[p][method]
			o.document, o.method, o.path = d, strings.ToUpper(method), p
			all = append(all, o)
		}
	}
	return all
}

// pathParameters returns the names of the parameters in the path, in their order.
func (o *operation) pathParameters() []string {
	var names []string
	for _, m := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(o.path, -1) {
		names = append(names, m[1])
	}
	return names
}

// hasQuery reports whether the operation has query parameters or, if name is not empty, this one.
func (o *operation) hasQuery(name string) bool {
	for _, p := range o.Parameters {
		if p.In == "query" && (name == "" || p.Name == name) {
			return true
		}
	}
	return false
}

// requiredQuery returns the query of the parameters that the operation needs; empty for none.
func (o *operation) requiredQuery() string {
	query := url.Values{}
	for _, p := range o.Parameters {
		if p.In == "query" && p.Required && len(p.Schema.Examples) > 0 {
			query.Set(p.Name, p.Schema.Examples[0])
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + strings.ReplaceAll(query.Encode(), "%2F", "/")
}

// paged reports whether the operation returns a list in pages.
func (o *operation) paged() bool {
	_, shape := o.answer()
	return shape != stream && o.hasQuery("cursor")
}

// body returns the example of the body and its schema; nil if the operation takes none.
func (o *operation) body() (json.RawMessage, *schema) {
	media := o.RequestBody.Content["application/json"]
	return media.Example, media.Schema
}

// answer returns the schema of what the operation returns, and how: as one object, a list or a stream of them. The
// schema is nil if it returns nothing.
func (o *operation) answer() (s *schema, shape shape) {
	// A rehearsal is answered with 200, the real call with that or a higher status.
	for _, status := range slices.Backward(slices.Sorted(maps.Keys(o.Responses))) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		r := o.Responses[status]
		for _, media := range r.Content {
			if media.Schema != nil && media.Schema.ContentSchema != nil {
				return media.Schema.ContentSchema.Items, stream
			}
		}
		s := r.Content["application/json"].Schema
		if s != nil && len(s.AnyOf) > 0 {
			s = s.AnyOf[0] // the other alternative is a rehearsal
		}
		if s != nil && s.Items != nil {
			return s.Items, list
		}
		return s, object
	}
	return nil, object
}

// shape is how an operation returns objects.
type shape int

const (
	object shape = iota
	list
	stream
)

// resolve returns the name of a schema, if it is a reference, and the schema that it refers to. A reference or null is
// the reference.
func (d *document) resolve(s *schema) (name string, resolved *schema) {
	for _, alternative := range s.AnyOf {
		if alternative.Ref != "" {
			s = alternative
		}
	}
	if s.Ref == "" {
		return "", s
	}
	name = path.Base(s.Ref)
	return name, d.Components.Schemas[name]
}

// nullable reports whether null is a value of a schema.
func (s *schema) nullable() bool {
	return strings.Contains(string(s.Type), `"null"`) ||
		slices.ContainsFunc(s.AnyOf, func(a *schema) bool { return a.nullable() })
}

// telling returns the name of the property that says most about an object in one word.
func (d *document) telling(s *schema) string {
	_, s = d.resolve(s)
	for name := range strings.FieldsSeq("status url resource key_prefix id user_id key agent_id message stale") {
		if p := s.Properties[name]; p != nil && !p.nullable() {
			return name
		}
	}
	return slices.Sorted(maps.Keys(s.Properties))[0]
}

// member is a member of an object in JSON.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of an object in JSON, in their order.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(strings.NewReader(string(b)))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var all []member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := member{name: fmt.Sprint(name)}
		if err := d.Decode(&m.value); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}
