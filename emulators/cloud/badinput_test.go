package cloud_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// fieldSchema is the part of a field's schema that the test reads.
type fieldSchema struct {
	Ref        string                 `json:"$ref"`
	Type       any                    `json:"type"`
	Enum       []any                  `json:"enum"`
	MaxLength  int                    `json:"maxLength"`
	AnyOf      []fieldSchema          `json:"anyOf"` // a type, or null
	Properties map[string]fieldSchema `json:"properties"`
}

// is reports whether the field takes values of a JSON type.
func (s fieldSchema) is(typ string) bool {
	if list, ok := s.Type.([]any); ok {
		return slices.Contains(list, any(typ))
	}
	return s.Type == typ
}

// apiDescription is the part of the OpenAPI description that describes requests.
type apiDescription struct {
	Paths map[string]map[string]struct {
		Parameters []struct {
			Ref    string      `json:"$ref"`
			In     string      `json:"in"`
			Name   string      `json:"name"`
			Schema fieldSchema `json:"schema"`
		} `json:"parameters"`
		RequestBody struct {
			Content map[string]struct {
				Schema fieldSchema `json:"schema"`
			} `json:"content"`
		} `json:"requestBody"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]fieldSchema `json:"schemas"`
	} `json:"components"`
}

func (api apiDescription) resolve(s fieldSchema) fieldSchema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return api.resolve(api.Components.Schemas[name])
	}
	if len(s.AnyOf) > 0 {
		return api.resolve(s.AnyOf[0])
	}
	return s
}

// badRequest is one invalid request.
type badRequest struct {
	name, method, path, body string
	// loc is the location of the violation; "" if the value may be valid.
	loc string
}

// hostileTexts lists texts that attack parsers, templates and storage.
func hostileTexts() map[string]string {
	return map[string]string{
		"control characters": "\x00\x1b[31m\r\n", "half a surrogate pair": `\ud800`,
		"long text":     strings.Repeat("x", 100_000),
		"invalid UTF-8": "\xff\xfe",
		"a path":        "../../../etc/passwd", "a template": "${jndi:ldap://x}{{7*7}}", "an id": "__reserved__",
	}
}

// testInvalidInput sends invalid values in every field of every described route. The response names the location of the
// violation and is never a server error.
func testInvalidInput(t *testing.T, d deployment) {
	var api apiDescription
	if err := json.Unmarshal([]byte(d.call(t, "", http.MethodGet, "/openapi.json", "").text), &api); err != nil {
		t.Fatal(err)
	}
	agent := d.create(t, `{"name": "bad input", "resource_plan": "hobby"}`)
	sent := 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		o, ok := api.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok || r.Access == function.Public {
			continue
		}
		good := ids{agent: agent, key: agent, operation: agent}.fill(r.Path)
		var requests []badRequest
		for _, p := range o.Parameters {
			requests = append(requests, parameterRequests(r, p.In, p.Name, api.resolve(p.Schema), good)...)
		}
		if content, ok := o.RequestBody.Content["application/json"]; ok { // files have any bytes
			requests = append(requests, api.bodyRequests(r, api.resolve(content.Schema), good)...)
		}
		for _, c := range requests {
			sent++
			d.checkRefused(t, c)
		}
	}
	if sent < 150 {
		t.Errorf("sent %d invalid requests, want at least 150", sent)
	}
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+agent, "")
}

// checkRefused sends an invalid request and checks its response.
func (d deployment) checkRefused(t *testing.T, c badRequest) {
	t.Helper()
	a := d.repeat(t, http.StatusUnprocessableEntity, c.method, c.path, c.body)
	switch {
	case a.status >= 500:
		t.Errorf("%s: got %d %s, want a client error\n%s", c.name, a.status, a.text, d.logLines(t, a.requestID()))
	case a.status == http.StatusRequestEntityTooLarge || c.loc == "":
	case a.status != http.StatusUnprocessableEntity || !strings.Contains(locations(a), c.loc):
		t.Errorf("%s: got %d at %s, want 422 at %s", c.name, a.status, locations(a), c.loc)
	}
}

// locations lists the locations of the violations in a response.
func locations(a answer) string {
	list, _ := a.body["detail"].([]any)
	var all []string
	for _, e := range list {
		entry, _ := e.(map[string]any)
		all = append(all, fmt.Sprint(entry["loc"]))
	}
	return strings.Join(all, " ")
}

// parameterRequests makes requests with invalid values of a parameter.
func parameterRequests(r function.Route, in, name string, s fieldSchema, good string) []badRequest {
	var requests []badRequest
	add := func(what, path, loc string) {
		requests = append(requests,
			badRequest{
				name: fmt.Sprintf("%s: %s in the %s's %s", r.Name, what, in, name), method: r.Method, path: path,
				body: samples()[r.Name], loc: loc,
			})
	}
	loc := fmt.Sprintf("[%s %s]", in, name)
	for what, text := range hostileTexts() {
		switch in {
		case "path":
			template := strings.ReplaceAll(r.Path, "{"+name+"}", url.PathEscape(text))
			if len(template) < 8000 && !strings.Contains(template, "{") {
				add(what, template, loc)
			}
		case "query":
			if len(text) > 8000 {
				text = text[:8000]
			}
			want := ""
			if s.is("integer") || len(s.Enum) > 0 || what == "invalid UTF-8" {
				want = loc
			}
			add(what, good+"?"+name+"="+url.QueryEscape(text), want)
		}
	}
	if in == "query" && s.is("integer") {
		for _, bad := range []string{"-1", "1e400", "1.5", strings.Repeat("9", 400), "", "NaN", "0x10"} {
			add(bad[:min(len(bad), 8)], good+"?"+name+"="+bad, loc)
		}
		add("25 digits", good+"?"+name+"="+strings.Repeat("9", 25), "")
	}
	return requests
}

// bodyRequests makes requests with invalid bodies, and with invalid values in each field of a valid body.
func (api apiDescription) bodyRequests(r function.Route, body fieldSchema, good string) []badRequest {
	sample := samples()[r.Name]
	if sample == "" {
		return nil
	}
	var requests []badRequest
	add := func(what, text, loc string) {
		requests = append(requests, badRequest{
			name: r.Name + ": " + what, method: r.Method, path: good, body: text, loc: loc,
		})
	}
	for _, text := range []string{"[]", "1", `"x"`, "{", "\xff", "{} {}", strings.Repeat("[", 50_000), `{"a":` +
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}"} {
		loc := "[body"
		if strings.HasPrefix(text, `{"a"`) || r.Access == function.Bearer {
			loc = "" // unknown fields are ignored, and a protocol has its own refusals
		}
		add("a body of "+text[:min(len(text), 8)], text, loc)
	}
	for name, s := range body.Properties {
		s = api.resolve(s)
		for what, value := range wrongTypes(s) {
			add(what+" in "+name, withField(sample, name, value), "[body "+name)
		}
		twice := strings.Replace(sample, "{", fmt.Sprintf(`{%q: null, %q: null, `, name, name), 1)
		add(name+" twice", twice, "[body "+name+"]")
		for what, text := range hostileTexts() {
			quoted, loc := `"`+text+`"`, ""
			if what == "control characters" || what == "invalid UTF-8" {
				loc = "[body" // JSON allows neither unescaped
			}
			if what == "long text" && s.is("string") && s.MaxLength < len(text) {
				loc = "[body " + name
			}
			add(what+" in "+name, withField(sample, name, quoted), loc)
			if s.is("object") {
				add(what+" as a key of "+name, withField(sample, name, "{"+quoted+": "+quoted+"}"), loc)
			}
		}
	}
	return requests
}

// wrongTypes lists JSON values of types that a field does not take.
func wrongTypes(s fieldSchema) map[string]string {
	values := map[string]string{}
	if !s.is("string") && !s.is("boolean") && !s.is("integer") {
		maps.Copy(values, map[string]string{"a string": `"x"`, "a huge number": "1e400", "a boolean": "true"})
	}
	if s.is("string") {
		maps.Copy(values, map[string]string{"a number": "5", "a huge number": "1e400", "a boolean": "true"})
	}
	if s.is("integer") || s.is("boolean") {
		maps.Copy(values, map[string]string{
			"text": `"many"`, "a huge number": "1e400", "a fraction": "1.5",
			"a very huge number": "1e999999999",
		})
	}
	if !s.is("object") {
		values["an object"] = "{}"
	}
	if !s.is("array") {
		values["a list"] = "[]"
	}
	return values
}

// withField sets a field of an object to raw JSON.
func withField(object, name, value string) string {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(object), &fields) != nil {
		return object
	}
	delete(fields, name)
	var b strings.Builder
	fmt.Fprintf(&b, "{%q: %s", name, value)
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, ", %q: %s", k, fields[k])
	}
	return b.String() + "}"
}
