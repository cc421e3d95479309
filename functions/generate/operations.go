package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// operation is what the types of clients need to know of an operation in the OpenAPI document.
type operation struct {
	ID          string      `json:"operationId"`
	Summary     string      `json:"summary"`
	Description string      `json:"description"`
	Parameters  []parameter `json:"parameters"`
	RequestBody *struct {
		Required bool    `json:"required"`
		Content  content `json:"content"`
	} `json:"requestBody"`
	Responses json.RawMessage `json:"responses"`
}

// parameter is a parameter of an operation, or a reference to one.
type parameter struct {
	Ref         string `json:"$ref"`
	Name        string `json:"name"`
	In          string `json:"in"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Schema      schema `json:"schema"`
}

// content holds schemas by media type.
type content map[string]struct {
	Schema schema `json:"schema"`
}

// operations declares what each operation takes and what its success returns, and the operations of each path.
func (w *typeWriter) operations(paths map[string]map[string]operation, shared map[string]parameter) error {
	byID := map[string]operation{}
	for _, methods := range paths {
		for _, o := range methods {
			byID[o.ID] = o
		}
	}
	w.WriteString("\n/** What each operation takes, and what it returns when it succeeds. */\n")
	w.WriteString("export interface operations {\n")
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		if err := w.operation(byID[id], shared); err != nil {
			return fmt.Errorf("operation %s: %w", id, err)
		}
	}
	w.WriteString("}\n\n/** The operations of each path. */\nexport interface paths {\n")
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		fmt.Fprintf(w, "  %q: {\n", path)
		for _, method := range slices.Sorted(maps.Keys(paths[path])) {
			fmt.Fprintf(w, "    %s: operations[%q];\n", method, paths[path][method].ID)
		}
		w.WriteString("  };\n")
	}
	w.WriteString("}\n")
	return nil
}

func (w *typeWriter) operation(o operation, shared map[string]parameter) error {
	w.comment("  ", o.Summary+". "+o.Description)
	fmt.Fprintf(w, "  %s: {\n", o.ID)
	w.parameters(o.Parameters, shared)
	if body := o.RequestBody; body != nil {
		name := property("requestBody", body.Required)
		fmt.Fprintf(w, "    %s: { content: %s };\n", name, typeOfContent(body.Content, false))
	}
	var responses map[string]struct {
		Content content `json:"content"`
	}
	if err := json.Unmarshal(o.Responses, &responses); err != nil {
		return err
	}
	w.WriteString("    responses: {\n")
	for _, status := range slices.Sorted(maps.Keys(responses)) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		answer := "{}"
		if c := responses[status].Content; len(c) > 0 {
			answer = "{ content: " + typeOfContent(c, true) + " }"
		}
		fmt.Fprintf(w, "      %s: %s;\n", status, answer)
	}
	w.WriteString("    };\n  };\n")
	return nil
}

// parameters declares the parameters of an operation by where they stand in a request.
func (w *typeWriter) parameters(all []parameter, shared map[string]parameter) {
	places := map[string][]parameter{}
	for _, p := range all {
		if p.Ref != "" {
			p = shared[typeName(p.Ref)]
		}
		places[p.In] = append(places[p.In], p)
	}
	if len(places) == 0 {
		w.WriteString("    parameters: {};\n")
		return
	}
	w.WriteString("    parameters: {\n")
	for _, place := range slices.Sorted(maps.Keys(places)) {
		required := slices.ContainsFunc(places[place], func(p parameter) bool { return p.Required })
		fmt.Fprintf(w, "      %s: {\n", property(place, required))
		for _, p := range places[place] {
			w.comment("        ", p.Description)
			fmt.Fprintf(w, "        %s: %s;\n", property(p.Name, p.Required), typeOf(p.Schema, false))
		}
		w.WriteString("      };\n")
	}
	w.WriteString("    };\n")
}

func typeOfContent(c content, open bool) string {
	var types []string
	for _, mediaType := range slices.Sorted(maps.Keys(c)) {
		types = append(types, fmt.Sprintf("%q: %s", mediaType, typeOf(c[mediaType].Schema, open)))
	}
	return "{ " + strings.Join(types, "; ") + " }"
}

var identifier = regexp.MustCompile(`^\w+$`)

// property returns the left side of a property's declaration.
func property(name string, required bool) string {
	if !identifier.MatchString(name) {
		name = fmt.Sprintf("%q", name)
	}
	if required {
		return name
	}
	return name + "?"
}
