package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"agents.example/controlplane/shared/agent"
)

// pythonTypes knows the types of the Python client.
type pythonTypes struct {
	schemas map[string]schema
	// answered and sent hold the names of the schemas of answers, and of those in bodies.
	answered, sent map[string]bool
}

func newPythonTypes(schemas namedSchemas) *pythonTypes {
	p := &pythonTypes{schemas: map[string]schema{}, answered: map[string]bool{}, sent: map[string]bool{}}
	for _, s := range schemas {
		p.schemas[s.name] = s.schema
	}
	return p
}

// mark marks the schemas that a schema refers to, directly or not.
func (p *pythonTypes) mark(s schema, names map[string]bool) {
	s.visit(func(v schema) {
		if name := typeName(v.Ref); v.Ref != "" && !names[name] {
			names[name] = true
			p.mark(p.schemas[name], names)
		}
	})
}

// dereference returns a schema and its name, if it refers to one. null reports whether null is a value.
func (p *pythonTypes) dereference(s schema) (name string, resolved schema, null bool) {
	for _, a := range s.AnyOf {
		if slices.Contains(a.Type, "null") {
			null = true
			continue
		}
		s = a
	}
	if slices.Contains(s.Type, "null") {
		null = true
		s.Type = slices.DeleteFunc(slices.Clone(s.Type), func(t string) bool { return t == "null" })
	}
	if s.Ref == "" {
		return "", s, null
	}
	name = typeName(s.Ref)
	return name, p.schemas[name], null
}

// typeOf returns the type of a schema in answers, or in what is sent.
func (p *pythonTypes) typeOf(s schema, sent bool) string {
	name, s, null := p.dereference(s)
	t := p.plainTypeOf(name, s, sent)
	if null && t != "Any" {
		t += " | None"
	}
	return t
}

func (p *pythonTypes) plainTypeOf(name string, s schema, sent bool) string {
	if name != "" && len(s.Enum) > 0 {
		return name
	}
	if name != "" && len(s.Properties) > 0 {
		switch {
		case !sent:
			return name
		case p.answered[name]:
			return name + " | " + p.specName(name)
		}
		return p.specName(name)
	}
	if len(s.Enum) > 0 {
		return literal(s.Enum)
	}
	if len(s.Type) == 0 {
		return "Any"
	}
	switch s.Type[0] {
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "string":
		return stringType(s, sent)
	}
	return p.containerOf(s, sent)
}

func stringType(s schema, sent bool) string {
	switch {
	case s.Format == "date-time" && sent:
		return "datetime | str"
	case s.Format == "date-time":
		return "datetime"
	}
	return "str"
}

func (p *pythonTypes) containerOf(s schema, sent bool) string {
	list, object := "list", "dict"
	if sent {
		list, object = "Sequence", "Mapping"
	}
	element := "Any"
	if s.Type[0] == "array" {
		if s.Items != nil {
			element = p.typeOf(*s.Items, sent)
		}
		return list + "[" + element + "]"
	}
	if a := s.additional(); a != nil {
		element = p.typeOf(*a, sent)
	}
	return object + "[str, " + element + "]"
}

// specName is the name of the TypedDict of an object in a body. Those of answers have a class with their name.
func (p *pythonTypes) specName(name string) string {
	if p.answered[name] {
		return name + "Spec"
	}
	return name
}

func literal(values []any) string {
	var all []string
	for _, v := range values {
		if s, ok := v.(string); ok {
			all = append(all, quoted(s))
		}
	}
	return "Literal[" + strings.Join(all, ", ") + "]"
}

// decoder returns the expression that decodes a value of an answer; empty if it is the same in Python.
func (p *pythonTypes) decoder(s schema) string {
	name, s, _ := p.dereference(s)
	switch {
	case name != "" && len(s.Properties) > 0:
		return name
	case s.Format == "date-time":
		return "timestamp"
	case len(s.Type) > 0 && s.Type[0] == "array" && s.Items != nil:
		if d := p.decoder(*s.Items); d != "" {
			return "listed(" + d + ")"
		}
	case s.additional() != nil:
		if d := p.decoder(*s.additional()); d != "" {
			return "mapped(" + d + ")"
		}
	}
	return ""
}

const modelsHeader = `"""The objects of the API.

A later release may add fields and values of enumerations. Unknown fields are in the attribute raw, and unknown values
arrive as they are.
"""

from __future__ import annotations

`

// models returns the module of the types that methods take and return.
func (p *pythonTypes) models(calls []pythonCall) ([]byte, error) {
	for _, c := range calls {
		p.mark(c.answer, p.answered)
		if c.canBeRehearsed {
			p.mark(schema{Ref: "Rehearsal"}, p.answered)
		}
		for _, s := range c.sent() {
			p.mark(s, p.sent)
		}
	}
	w := &pythonWriter{}
	if err := p.writeTypes(w); err != nil {
		return nil, err
	}
	body := w.String()
	w.Reset()
	w.WriteString(pythonHeader + modelsHeader)
	w.imports("collections.abc", used(body, "Mapping", "Sequence"))
	w.imports("datetime", used(body, "datetime"))
	w.imports("typing", used(body, "Any", "Literal", "TypeAlias", "TypedDict"))
	w.endImports()
	w.imports("._model", used(body, "Model", "listed", "mapped", "timestamp"))
	w.WriteString(body)
	return w.Bytes(), nil
}

func (p *pythonTypes) writeTypes(w *pythonWriter) error {
	for _, name := range slices.Sorted(maps.Keys(p.schemas)) {
		if s := p.schemas[name]; len(s.Enum) > 0 && (p.answered[name] || p.sent[name]) {
			p.writeEnum(w, name, s)
		}
	}
	written := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(p.answered)) {
		if err := p.writeModel(w, name, written, nil); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.sent)) {
		if len(p.schemas[name].Properties) > 0 {
			p.writeSpec(w, name)
		}
	}
	return nil
}

func (p *pythonTypes) writeEnum(w *pythonWriter, name string, s schema) {
	line := fmt.Sprintf("%s: TypeAlias = %s", name, literal(s.Enum))
	if len(line) > columns {
		line = strings.NewReplacer("Literal[", "Literal[\n    ", ", ", ",\n    ", "]", ",\n]").Replace(line)
	}
	w.line(0, "\n%s", line)
	w.docstring(0, s.Description)
}

// writeModel writes the class of an object of answers, after those of its parts.
func (p *pythonTypes) writeModel(w *pythonWriter, name string, written map[string]bool, above []string) error {
	s := p.schemas[name]
	if written[name] || len(s.Properties) == 0 {
		return nil
	}
	if slices.Contains(above, name) {
		return fmt.Errorf("the schema %s contains itself", name)
	}
	parts := map[string]bool{}
	s.visit(func(v schema) {
		if v.Ref != "" {
			parts[typeName(v.Ref)] = true
		}
	})
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if err := p.writeModel(w, part, written, append(above, name)); err != nil {
			return err
		}
	}
	written[name] = true
	w.line(0, "\n\nclass %s(Model):", name)
	w.docstring(1, s.Description)
	if s.Description != "" {
		w.WriteString("\n")
	}
	var fields, hidden []string
	for _, property := range s.Properties {
		if property.name == "raw" || property.name == "headers" || strings.HasPrefix(property.name, "_") {
			return fmt.Errorf("the property %s of %s would hide one of Model", property.name, name)
		}
		t := p.typeOf(property.schema, false)
		if !slices.Contains(s.Required, property.name) && t != "Any" && !strings.HasSuffix(t, " | None") {
			t += " | None"
		}
		w.line(1, "%s: %s", property.name, t)
		w.docstring(1, property.schema.Description)
		fields = append(fields, fmt.Sprintf("%q: %s", property.name, cmp.Or(p.decoder(property.schema), "None")))
		if p.isHidden(name, property) {
			hidden = append(hidden, quoted(property.name))
		}
	}
	w.WriteString("\n")
	w.line(1, "_fields = {")
	for _, f := range fields {
		w.line(2, "%s,", f)
	}
	w.line(1, "}")
	if len(hidden) > 0 {
		w.line(1, "_hidden = frozenset({%s})", strings.Join(hidden, ", "))
	}
	return nil
}

// isHidden reports whether repr must not show a property. A new one whose name looks like a secret is hidden.
func (p *pythonTypes) isHidden(name string, property namedSchema) bool {
	switch name + "." + property.name {
	case "Agent.dashboard_handoff_url", "BillingSession.url": // who has the link gets in
		return true
	case "AgentFile.secret", "SecretOperation.secret_ref": // names
		return false
	}
	_, s, _ := p.dereference(property.schema)
	isText := len(s.Type) > 0 && s.Type[0] == "string" && s.Format != "date-time"
	return isText && agent.LooksSecret(strings.ToUpper(property.name))
}

// writeSpec writes the TypedDict of an object in bodies.
func (p *pythonTypes) writeSpec(w *pythonWriter, name string) {
	s := p.schemas[name]
	base, total := "TypedDict, total=False", false
	if len(s.Required) > 0 {
		base, total = "TypedDict", true
		if len(s.Required) < len(s.Properties) {
			base = "_" + p.specName(name) + ", total=False"
			w.line(0, "\n\nclass _%s(TypedDict):", p.specName(name))
			p.writeKeys(w, s, true)
			total = false
		}
	}
	w.line(0, "\n\nclass %s(%s):", p.specName(name), base)
	w.docstring(1, s.Description)
	if s.Description != "" {
		w.WriteString("\n")
	}
	p.writeKeys(w, s, total)
}

func (p *pythonTypes) writeKeys(w *pythonWriter, s schema, required bool) {
	for _, property := range s.Properties {
		if slices.Contains(s.Required, property.name) != required {
			continue
		}
		w.line(1, "%s: %s", property.name, p.typeOf(property.schema, true))
		w.docstring(1, property.schema.Description)
	}
}
