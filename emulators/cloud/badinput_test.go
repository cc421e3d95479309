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

// fieldSchema is what the test reads of a field's description.
type fieldSchema struct {
	Ref        string                 `json:"$ref"`
	Type       any                    `json:"type"`
	Enum       []any                  `json:"enum"`
	MaxLength  int                    `json:"maxLength"`
	Properties map[string]fieldSchema `json:"properties"`
}

// is reports whether a value of the JSON type may stand in the field.
func (s fieldSchema) is(typ string) bool {
	if list, ok := s.Type.([]any); ok {
		return slices.Contains(list, any(typ))
	}
	return s.Type == typ
}

// described is the description that the cloud serves, as far as it says what may be sent.
type described struct {
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

func (d described) resolve(s fieldSchema) fieldSchema {
	if name, ok := strings.CutPrefix(s.Ref, "#/components/schemas/"); ok {
		return d.resolve(d.Components.Schemas[name])
	}
	return s
}

// trial is one bad request.
type trial struct {
	name, method, path, body string
	// loc is where the violation is, as text; empty where the value may also be a good one.
	loc string
}

// hostile is text that nobody means.
func hostile() map[string]string {
	return map[string]string{
		"control characters": "\x00\x1b[31m\r\n", "half a pair": `\ud800`, "long text": strings.Repeat("x", 100_000),
		"no UTF-8": "\xff\xfe",
		"a path":   "../../../etc/passwd", "a template": "${jndi:ldap://x}{{7*7}}", "an id": "__reserved__",
	}
}

// badInput sends something bad in every field of every route that the description has: it is refused with the place of
// what is wrong, and never an error of the service.
func badInput(t *testing.T, w world) {
	var d described
	if err := json.Unmarshal([]byte(w.call(t, "", http.MethodGet, "/openapi.json", "").text), &d); err != nil {
		t.Fatal(err)
	}
	agent := w.create(t, `{"name": "bad input", "resource_plan": "hobby"}`)
	sent := 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		o, ok := d.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok || r.Access == function.Public {
			continue
		}
		good := ids{agent, agent, agent}.fill(r.Path)
		var trials []trial
		for _, p := range o.Parameters {
			trials = append(trials, parameterTrials(r, p.In, p.Name, d.resolve(p.Schema), good)...)
		}
		body := d.resolve(o.RequestBody.Content["application/json"].Schema)
		trials = append(trials, d.bodyTrials(r, body, good)...)
		for _, c := range trials {
			sent++
			w.refuses(t, c)
		}
	}
	if sent < 150 {
		t.Errorf("only %d bad requests", sent)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+agent, "")
}

// refuses sends a bad request.
func (w world) refuses(t *testing.T, c trial) {
	t.Helper()
	a := w.call(t, w.Ready.APIKey, c.method, c.path, c.body)
	switch {
	case a.status >= 500:
		t.Errorf("%s: %d %s", c.name, a.status, a.text)
	case a.status == http.StatusRequestEntityTooLarge || c.loc == "":
	case a.status != http.StatusUnprocessableEntity || !strings.Contains(locations(a), c.loc):
		t.Errorf("%s: %d at %s, want 422 at %s", c.name, a.status, locations(a), c.loc)
	}
}

// locations lists where an answer says that something is wrong.
func locations(a answer) string {
	list, _ := a.body["detail"].([]any)
	var all []string
	for _, e := range list {
		entry, _ := e.(map[string]any)
		all = append(all, fmt.Sprint(entry["loc"]))
	}
	return strings.Join(all, " ")
}

func parameterTrials(r function.Route, in, name string, s fieldSchema, good string) []trial {
	var trials []trial
	add := func(what, path, loc string) {
		trials = append(trials, trial{fmt.Sprintf("%s: %s in the %s's %s", r.Name, what, in, name), r.Method, path,
			samples()[r.Name], loc})
	}
	loc := fmt.Sprintf("[%s %s]", in, name)
	for what, text := range hostile() {
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
			if s.is("integer") || len(s.Enum) > 0 || what == "no UTF-8" {
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
	return trials
}

// bodyTrials puts something bad in each field of a good body.
func (d described) bodyTrials(r function.Route, body fieldSchema, good string) []trial {
	sample := samples()[r.Name]
	if sample == "" {
		return nil
	}
	var trials []trial
	add := func(what, text, loc string) {
		trials = append(trials, trial{r.Name + ": " + what, r.Method, good, text, loc})
	}
	for _, text := range []string{"[]", "1", `"x"`, "{", "\xff", "{} {}", strings.Repeat("[", 50_000), `{"a":` +
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + "}"} {
		loc := "[body"
		if strings.HasPrefix(text, `{"a"`) {
			loc = "" // a field that nobody knows
		}
		add("a body of "+text[:min(len(text), 8)], text, loc)
	}
	for name, s := range body.Properties {
		s = d.resolve(s)
		for what, value := range wrong(s) {
			add(what+" in "+name, with(sample, name, value), "[body "+name)
		}
		twice := strings.Replace(sample, "{", fmt.Sprintf(`{%q: null, %q: null, `, name, name), 1)
		add(name+" twice", twice, "[body "+name+"]")
		for what, text := range hostile() {
			quoted, loc := `"`+text+`"`, ""
			if what == "control characters" || what == "no UTF-8" {
				loc = "[body" // neither stands in JSON as it is
			}
			if what == "long text" && s.is("string") {
				loc = "[body " + name
			}
			add(what+" in "+name, with(sample, name, quoted), loc)
			if s.is("object") {
				add(what+" as a key of "+name, with(sample, name, "{"+quoted+": "+quoted+"}"), loc)
			}
		}
	}
	return trials
}

// wrong lists JSON values of other types than a field's.
func wrong(s fieldSchema) map[string]string {
	values := map[string]string{}
	if !s.is("string") && !s.is("boolean") && !s.is("integer") {
		maps.Copy(values, map[string]string{"a string": `"x"`, "a huge number": "1e400", "a boolean": "true"})
	}
	if s.is("string") {
		maps.Copy(values, map[string]string{"a number": "5", "a huge number": "1e400", "a boolean": "true"})
	}
	if s.is("integer") || s.is("boolean") {
		maps.Copy(values, map[string]string{"text": `"many"`, "a huge number": "1e400", "a fraction": "1.5",
			"a very huge number": "1e999999999"})
	}
	if !s.is("object") {
		values["an object"] = "{}"
	}
	if !s.is("array") {
		values["a list"] = "[]"
	}
	return values
}

// with puts raw JSON in a field of an object.
func with(object, name, value string) string {
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
