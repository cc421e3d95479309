package agentctl

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/client-go/util/jsonpath"
)

// Kinds of output.
const (
	formatTable    = "table"
	formatJSON     = "json"
	formatYAML     = "yaml"
	formatName     = "name"
	formatJSONPath = "jsonpath"
)

// format is the value of the flag --output.
type format struct {
	kind string
	// template is the expression of jsonpath.
	template string
}

// String implements pflag.Value.
func (f *format) String() string {
	if f.kind == formatJSONPath {
		return formatJSONPath + "=" + f.template
	}
	return f.kind
}

// Type implements pflag.Value.
func (*format) Type() string { return "format" }

// Set implements pflag.Value.
func (f *format) Set(value string) error {
	kind, template, _ := strings.Cut(value, "=")
	switch kind {
	case formatTable, formatJSON, formatYAML, formatName:
		if template != "" {
			return fmt.Errorf("%s takes no template", kind)
		}
	case formatJSONPath:
		if template == "" {
			return fmt.Errorf("jsonpath needs a template, as in jsonpath='{.id}'")
		}
	default:
		return fmt.Errorf("want table, json, yaml, name or jsonpath=TEMPLATE")
	}
	f.kind, f.template = kind, template
	return nil
}

// result is what a command shows.
type result struct {
	// value is the API's answer, for json, yaml and jsonpath.
	value any
	// names are the ids for the format name.
	names []string
	// table shows the answer to people. Its writer is a screen.
	table func(w io.Writer) error
}

// show prints a result to standard output in the format that the user chose.
func (t *tool) show(r result) error {
	switch t.output.kind {
	case formatJSON:
		return t.printJSON(r.value, "  ")
	case formatYAML:
		return t.printYAML("", r.value)
	case formatName:
		if len(r.names) == 0 {
			return nil
		}
		return t.printText(strings.Join(r.names, "\n"))
	case formatJSONPath:
		return t.printJSONPath(r.value)
	}
	return r.table(t.stdout())
}

// printJSON prints a value as JSON. Without indent, it takes one line.
func (t *tool) printJSON(value any, indent string) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return err
	}
	return t.printEscaped(b.String())
}

// printYAML prints a value as YAML after a text that begins the document.
func (t *tool) printYAML(begin string, value any) error {
	plain, err := decoded(value)
	if err != nil {
		return err
	}
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	e.CompactSeqIndent()
	if err := errors.Join(e.Encode(replaceLeaves(plain, withDigits)), e.Close()); err != nil {
		return err
	}
	return t.printEscaped(begin + b.String())
}

// withDigits makes a number of JSON one that the encoder of YAML writes with the same digits.
func withDigits(leaf any) any {
	if n, ok := leaf.(json.Number); ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: n.String()}
	}
	return leaf
}

// replaceLeaves replaces what the objects and lists of a decoded value have.
func replaceLeaves(value any, replace func(leaf any) any) any {
	switch v := value.(type) {
	case []any:
		for i := range v {
			v[i] = replaceLeaves(v[i], replace)
		}
	case map[string]any:
		for name := range v {
			v[name] = replaceLeaves(v[name], replace)
		}
	default:
		return replace(value)
	}
	return value
}

// printEscaped prints JSON or YAML. Programs get it as it is.
func (t *tool) printEscaped(text string) error {
	if t.app.Terminal.Out {
		text = escaped(text)
	}
	_, err := io.WriteString(t.app.Stdout, text)
	return err
}

// printItem prints one item of a stream in the format that the user chose. Its text is for people.
func (t *tool) printItem(item any, name string, text func() string) error {
	switch t.output.kind {
	case formatJSON:
		return t.printJSON(item, "")
	case formatJSONPath:
		return t.printJSONPath(item)
	case formatYAML:
		return t.printYAML("---\n", item)
	case formatName:
		return t.printText(name)
	}
	return t.printText(text())
}

// printText prints a text. Programs get it as it is.
func (t *tool) printText(text string) error {
	if t.app.Terminal.Out {
		text = harmlessLines(text)
	}
	_, err := io.WriteString(t.app.Stdout, text+"\n")
	return err
}

// printJSONPath prints the part of a value that the user's template names.
func (t *tool) printJSONPath(value any) error {
	plain, err := decoded(value)
	if err != nil {
		return err
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(pathTemplate(t.output.template)); err != nil {
		return usagef("the jsonpath template cannot be parsed: %w", err)
	}
	var b bytes.Buffer
	if err := path.Execute(&b, replaceLeaves(plain, printable)); err != nil {
		return usagef("the jsonpath template does not fit the answer: %w", err)
	}
	return t.printText(b.String())
}

// pathTemplate returns a template as package jsonpath reads it: in braces, and without the dot in front of the index
// of the answer itself, which the package would take for a field without a name.
func pathTemplate(template string) string {
	if !strings.Contains(template, "{") {
		template = strings.TrimPrefix(template, ".")
		if !strings.HasPrefix(template, "[") {
			template = "." + template
		}
		template = "{" + template + "}"
	}
	return strings.NewReplacer("{.[", "{[", "{range .[", "{range [").Replace(template)
}

// decoded returns what JSON has of a value: objects, lists, strings, numbers with their digits, and truth values.
func decoded(value any) (any, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var plain any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return plain, d.Decode(&plain)
}

// printable makes a leaf one for the template language. Integers stay integers, with all digits of one that no type of
// Go can hold, and a null is an empty text.
func printable(leaf any) any {
	switch v := leaf.(type) {
	case nil:
		return ""
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if !strings.ContainsAny(v.String(), ".eE") {
			return v.String()
		}
		f, _ := v.Float64()
		return f
	}
	return leaf
}

// list returns the result of a command that lists objects.
func list[T any](items []T, id func(T) string, columns []column[T]) result {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = id(item)
	}
	return result{value: items, names: names, table: func(w io.Writer) error {
		return printTable(w, items, columns)
	}}
}

// field is one line of the view of an object.
type field struct{ name, value string }

// object returns the result of a command that shows one object. Fields without a value are left out.
func object(value any, id string, fields []field) result {
	return result{value: value, names: []string{id}, table: func(w io.Writer) error {
		printFields(asScreen(w), fields)
		return nil
	}}
}
