package agentctl

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
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
	// table shows the answer to people.
	table func(w io.Writer) error
}

// show prints a result to standard output in the format that the user chose.
func (t *tool) show(r result) error {
	w := t.app.Stdout
	switch t.output.kind {
	case formatJSON:
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r.value)
	case formatYAML:
		b, err := yaml.Marshal(r.value)
		if err == nil {
			_, err = w.Write(b)
		}
		return err
	case formatName:
		for _, name := range r.names {
			fmt.Fprintln(w, name)
		}
		return nil
	case formatJSONPath:
		return printJSONPath(w, t.output.template, r.value)
	}
	return r.table(w)
}

func printJSONPath(w io.Writer, template string, value any) error {
	b, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		return err
	}
	path := jsonpath.New("output")
	if err := path.Parse(template); err != nil {
		return usagef("the jsonpath template cannot be parsed: %w", err)
	}
	if err := path.Execute(w, plain); err != nil {
		return usagef("the jsonpath template does not fit the answer: %w", err)
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// column is one column of a table.
type column[T any] struct {
	title string
	value func(T) string
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

func printTable[T any](w io.Writer, items []T, columns []column[T]) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	cells := make([]string, len(columns))
	for i, c := range columns {
		cells[i] = c.title
	}
	fmt.Fprintln(table, strings.Join(cells, "\t"))
	for _, item := range items {
		for i, c := range columns {
			cells[i] = c.value(item)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	return table.Flush()
}

// field is one line of the view of an object.
type field struct{ name, value string }

// object returns the result of a command that shows one object. Fields without a value are left out.
func object(value any, id string, fields []field) result {
	return result{value: value, names: []string{id}, table: func(w io.Writer) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, f := range fields {
			if f.value != "" {
				fmt.Fprintf(table, "%s:\t%s\n", f.name, f.value)
			}
		}
		return table.Flush()
	}}
}
