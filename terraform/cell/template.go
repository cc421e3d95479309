package cell

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

// renderText renders a template of Terraform. It knows the parts of the language that the templates use, and refuses
// others. A test compares it with Terraform's own library, which every first start would have to compile.
func renderText(name, source string, values map[string]any) (string, error) {
	translated, err := translate(source)
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", name, err)
	}
	parsed, err := template.New(name).Delims(open, end).Option("missingkey=error").Funcs(template.FuncMap{
		"distinct": distinct, "flatten": flatten, "join": join, "jsonencode": encode, "values": valuesOf,
		"list": list, "dict": dict,
	}).Parse(translated)
	if err != nil {
		return "", fmt.Errorf("parse %s: %w", name, err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, values); err != nil {
		return "", fmt.Errorf("render %s: %w", name, err)
	}
	return text.String(), nil
}

// The delimiters of actions in a translated template.
const (
	open = "«"
	end  = "»"
)

// translate translates a template into one of text/template.
func translate(source string) (string, error) {
	// Directives take a line, whose end they leave out.
	sequence := regexp.MustCompile(`%\{ (.*?) ~\}\n|\$\{(.*?)\}`)
	// A sequence would be left over, or be escaped.
	unknown := regexp.MustCompile(`[$%]\{|[$%]$|` + open)
	var out strings.Builder
	t := translator{}
	for {
		found := sequence.FindStringSubmatchIndex(source)
		literal := source
		if found != nil {
			literal = source[:found[0]]
		}
		if unknown.MatchString(literal) {
			return "", fmt.Errorf("it uses a part of the template language that is not known here: %q", literal)
		}
		out.WriteString(literal)
		if found == nil {
			return out.String(), nil
		}
		text := source[max(found[2], found[4]):max(found[3], found[5])]
		t.rest = token().FindAllString(text, -1)
		action := t.expression
		if found[2] >= 0 {
			action = t.directive
		}
		translated := action()
		if len(t.rest) > 0 || t.failed {
			return "", fmt.Errorf("it uses an expression that is not known here: %q", text)
		}
		out.WriteString(open + translated + end)
		source = source[found[1]:]
	}
}

func token() *regexp.Regexp { return regexp.MustCompile(`"[^"\\]*"|\w+|!=|\S`) }

// translator translates the tokens of one sequence.
type translator struct {
	rest      []string
	variables []string // of the loops around
	blocks    []int    // the number of variables of each block around
	failed    bool
}

// take removes the next token and returns it.
func (t *translator) take() string {
	if len(t.rest) == 0 {
		t.failed = true
		return ""
	}
	next := t.rest[0]
	t.rest = t.rest[1:]
	return next
}

// accept removes the next token if it is a certain one.
func (t *translator) accept(token string) bool {
	if len(t.rest) == 0 || t.rest[0] != token {
		return false
	}
	t.take()
	return true
}

func (t *translator) expect(token string) {
	if !t.accept(token) {
		t.failed = true
	}
}

func (t *translator) directive() string {
	switch t.take() {
	case "for":
		names := []string{t.take()}
		if t.accept(",") {
			names = append(names, t.take())
		}
		t.expect("in")
		over := t.expression()
		t.variables, t.blocks = append(t.variables, names...), append(t.blocks, len(names))
		if len(names) == 1 {
			names = []string{"_", names[0]} // text/template has an index first
		}
		return fmt.Sprintf("range $%s := %s", strings.Join(names, ", $"), over)
	case "if":
		t.blocks = append(t.blocks, 0)
		left := t.expression()
		t.expect("!=")
		return "if ne " + left + " " + t.expression()
	case "endfor", "endif":
		last := len(t.blocks) - 1
		if last < 0 {
			t.failed = true
			return ""
		}
		t.variables, t.blocks = t.variables[:len(t.variables)-t.blocks[last]], t.blocks[:last]
		return "end"
	}
	t.failed = true
	return ""
}

// expression translates a text, a list, an object, a call or a variable.
func (t *translator) expression() string {
	switch first := t.take(); {
	case strings.HasPrefix(first, `"`):
		return first
	case first == "[":
		return "(list" + t.elements("]") + ")"
	case first == "{":
		return "(dict" + t.attributes() + ")"
	case t.accept("("):
		return "(" + first + t.elements(")") + ")"
	default:
		return t.variable(first)
	}
}

// elements translates expressions up to a closing token.
func (t *translator) elements(closing string) string {
	var all string
	for !t.failed && !t.accept(closing) {
		all += " " + t.expression()
		if !t.accept(",") {
			t.expect(closing)
			break
		}
	}
	return all
}

// attributes translates those of an object.
func (t *translator) attributes() string {
	var all string
	for !t.failed && !t.accept("}") {
		all += fmt.Sprintf(" %q", t.take())
		t.expect("=")
		all += " " + t.expression()
		if !t.accept(",") {
			t.expect("}")
			break
		}
	}
	return all
}

// variable translates one with its attributes or its index.
func (t *translator) variable(name string) string {
	path := "$." + name
	if slices.Contains(t.variables, name) {
		path = "$" + name
	}
	for t.accept(".") {
		path += "." + t.take()
	}
	if t.accept("[") {
		path = "(index " + path + " " + t.expression() + ")"
		t.expect("]")
	}
	return path
}

// The functions of the templates, named as in Terraform.

func valuesOf(of map[string][]string) [][]string {
	var all [][]string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[key])
	}
	return all
}

func flatten(lists [][]string) []string { return slices.Concat(lists...) }

func distinct(texts []string) []string {
	all := []string{}
	for _, text := range texts {
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

func join(separator string, texts []string) string { return strings.Join(texts, separator) }

func encode(value any) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// list and dict make the lists and objects that a template contains.
func list(texts ...string) []string { return texts }

func dict(pairs ...string) (map[string]string, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("an attribute has no value")
	}
	object := map[string]string{}
	for pair := range slices.Chunk(pairs, 2) {
		object[pair[0]] = pair[1]
	}
	return object, nil
}
