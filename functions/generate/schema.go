package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// schema is what the types of clients need to know of a JSON schema in the OpenAPI document.
type schema struct {
	Ref         string       `json:"$ref"`
	Type        oneOrMore    `json:"type"`
	Format      string       `json:"format"`
	Description string       `json:"description"`
	Enum        []any        `json:"enum"`
	AnyOf       []schema     `json:"anyOf"`
	Items       *schema      `json:"items"`
	Properties  namedSchemas `json:"properties"`
	Required    []string     `json:"required"`
	// ContentSchema is the list of the items of a stream.
	ContentSchema *schema `json:"contentSchema"`
	// AdditionalProperties is a schema, true or absent.
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
}

// oneOrMore is a name or a list of names.
type oneOrMore []string

func (o *oneOrMore) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		return json.Unmarshal(b, (*[]string)(o))
	}
	*o = make(oneOrMore, 1)
	return json.Unmarshal(b, &(*o)[0])
}

type namedSchema struct {
	name   string
	schema schema
}

// namedSchemas keeps the order of the document.
type namedSchemas []namedSchema

func (n *namedSchemas) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		property := namedSchema{name: fmt.Sprint(name)}
		if err := d.Decode(&property.schema); err != nil {
			return fmt.Errorf("schema %s: %w", property.name, err)
		}
		*n = append(*n, property)
	}
	return nil
}

// references returns the names of the schemas that a piece of the document refers to.
func references(piece []byte) map[string]bool {
	names := map[string]bool{}
	for _, m := range regexp.MustCompile(`"#/components/schemas/(\w+)"`).FindAllSubmatch(piece, -1) {
		names[string(m[1])] = true
	}
	return names
}

// reachable adds the schemas that the schemas with these names refer to, directly or not.
func reachable(names map[string]bool, schemas namedSchemas) map[string]bool {
	for {
		before := len(names)
		for _, s := range schemas {
			if names[s.name] {
				s.schema.visit(func(v schema) {
					if v.Ref != "" {
						names[typeName(v.Ref)] = true
					}
				})
			}
		}
		if len(names) == before {
			return names
		}
	}
}

// visit calls f with the schema and with every schema in it.
func (s schema) visit(f func(schema)) {
	f(s)
	for _, p := range s.Properties {
		p.schema.visit(f)
	}
	for _, a := range s.AnyOf {
		a.visit(f)
	}
	if s.Items != nil {
		s.Items.visit(f)
	}
	if a := s.additional(); a != nil {
		a.visit(f)
	}
}

// additional returns the schema of the properties without a name, or nil if there are none.
func (s schema) additional() *schema {
	var a schema
	switch string(s.AdditionalProperties) {
	case "", "false":
		return nil
	case "true":
		return &a
	}
	if err := json.Unmarshal(s.AdditionalProperties, &a); err != nil {
		return nil
	}
	return &a
}

func typeName(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }
