package codesample

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/format"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// golang returns statements of a function that returns an error. They use ctx, c, which is a client, and a variable
// for each parameter of the path. They follow the templates of shared/client.
func golang(o *operation) (string, error) {
	call, err := goCall(o)
	if err != nil {
		return "", err
	}
	const check = "if err != nil {\n\treturn err\n}\n"
	answered, shape := o.answer()
	code := "err := " + call + "\n" + check
	if answered != nil {
		name, _ := o.document.resolve(answered)
		result, shown := goLocal(name), goName(o.document.telling(answered))
		show := fmt.Sprintf("fmt.Println(%s.%s)\n", result, shown)
		switch all := result + "s"; {
		case o.paged():
			code = fmt.Sprintf("for %s, err := range %s.All(ctx) {\n%s%s}\n", result, call, check, show)
		case shape == stream:
			code = fmt.Sprintf("for %s, err := range %s {\n%s%s}\n", result, call, check, show)
		case shape == list:
			code = fmt.Sprintf("%s, err := %s\n%sfor _, %s := range %s {\n%s}\n", all, call, check, result, all, show)
		default:
			code = fmt.Sprintf("%s, err := %s\n%s%s", result, call, check, show)
		}
	}
	formatted, err := format.Source([]byte(code))
	return string(bytes.TrimSpace(formatted)), err
}

func goCall(o *operation) (string, error) {
	var args []string
	if !o.paged() {
		args = append(args, "ctx")
	}
	for _, name := range o.pathParameters() {
		args = append(args, goLocal(goName(name)))
	}
	if o.hasQuery("") {
		args = append(args, "client."+o.ID+"Params{}")
	}
	if example, s := o.body(); example != nil {
		body, err := o.document.goLiteral(s, example)
		if err != nil {
			return "", err
		}
		args = append(args, body)
	}
	return "c." + o.ID + "(" + strings.Join(args, ", ") + ")", nil
}

// goLiteral returns an expression with the type of a schema and the value of an example.
func (d *document) goLiteral(s *schema, example json.RawMessage) (string, error) {
	name, resolved := d.resolve(s)
	if example[0] == '[' { // of strings
		list := bytes.TrimSpace(example)
		return "[]string{" + string(bytes.TrimSpace(list[1:len(list)-1])) + "}", nil
	}
	if example[0] != '{' {
		return goScalar(example), nil
	}
	fields, err := members(example)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	if len(resolved.Properties) == 0 {
		b.WriteString("map[string]" + goElement(resolved.AdditionalProperties) + "{\n")
	} else {
		b.WriteString("client." + name + "{\n")
	}
	for _, f := range fields {
		key, value, pointer := strconv.Quote(f.name), resolved.AdditionalProperties, false
		if p := resolved.Properties[f.name]; p != nil {
			key, value, pointer = goName(f.name), p, !slices.Contains(resolved.Required, f.name)
		}
		literal, err := d.goField(value, f.value, pointer)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s: %s,\n", key, literal)
	}
	return b.String() + "}", nil
}

// goField returns the value of a field or of a key of a map. A nullable or optional value that is no map is a pointer.
func (d *document) goField(s *schema, example json.RawMessage, optional bool) (string, error) {
	if s == nil {
		s = &schema{}
	}
	literal, err := d.goLiteral(s, example)
	container := example[0] == '{' || example[0] == '['
	if err != nil || container || string(example) == "null" || !optional && !s.nullable() {
		return literal, err
	}
	name, _ := d.resolve(s)
	switch {
	case name != "":
		literal = "client." + name + "(" + literal + ")"
	case strings.Contains(string(s.Type), "integer"):
		literal = "int64(" + literal + ")"
	case s.Format == "date-time":
		if literal, err = goTime(example); err != nil {
			return "", err
		}
	}
	return "new(" + literal + ")", nil
}

// goTime returns the expression of a time of an example.
func goTime(example json.RawMessage) (string, error) {
	var at time.Time
	if err := json.Unmarshal(example, &at); err != nil {
		return "", fmt.Errorf("an example of a time: %w", err)
	}
	at = at.UTC()
	return fmt.Sprintf("time.Date(%d, time.%s, %d, %d, %d, %d, 0, time.UTC)",
		at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second()), nil
}

func goElement(s *schema) string {
	switch {
	case s == nil || len(s.Type) == 0:
		return "any"
	case s.nullable():
		return "*string"
	}
	return "string"
}

func goScalar(example json.RawMessage) string {
	if string(example) == "null" {
		return "nil"
	}
	return string(example) // strings, numbers and booleans are literals of Go, too
}

// goName returns the exported name of a property or parameter, as the generator of the client writes it.
func goName(name string) string {
	initialisms := []string{"api", "cpu", "dns", "http", "https", "id", "ip", "tls", "ttl", "url", "uuid"}
	var b strings.Builder
	for word := range strings.SplitSeq(name, "_") {
		if slices.Contains(initialisms, word) {
			b.WriteString(strings.ToUpper(word))
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// goLocal returns the name of a variable for a value with an exported name: agentID for AgentID, apiKey for APIKey.
func goLocal(name string) string {
	runes := []rune(name)
	for i := range runes {
		if i > 0 && i+1 < len(runes) && unicode.IsLower(runes[i+1]) || unicode.IsLower(runes[i]) {
			break
		}
		runes[i] = unicode.ToLower(runes[i])
	}
	return string(runes)
}
