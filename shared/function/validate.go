package function

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	infer "github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

// Violation is one entry of a validation error.
type Violation = fault.Violation

// violations validates a request document and returns every violation in the vocabulary of pydantic v2. Unlike
// pydantic's, the entries have no "input": any field may hold a secret.
//
// As there, a part of the body that breaks the schema has no further violations, of checks, at or below its place:
// they would speak of what the client did not send.
func (s *inputSchema) violations(document map[string]any) []Violation {
	v := validation{patterns: s.patterns}
	v.check(s.description, nil, document)
	body, ok := document["body"].(map[string]any)
	if !ok {
		return v.found.all
	}
	refused := map[string]bool{}
	for _, found := range v.found.all {
		refused[fmt.Sprintf("%q", found.Loc)] = true
	}
	for _, check := range s.checks {
		for _, found := range check(body) {
			if v.found.full() {
				return v.found.all
			}
			if !hasPrefixIn(refused, found.Loc) {
				v.found.add(found)
			}
		}
	}
	return v.found.all
}

// hasPrefixIn reports whether one of the places is a location or leads to it.
func hasPrefixIn(places map[string]bool, loc []any) bool {
	for n := range loc {
		if places[fmt.Sprintf("%q", loc[:n+1])] {
			return true
		}
	}
	return false
}

const (
	// maxViolations bounds the violations of one answer. Each takes several times the bytes that caused it.
	maxViolations = 1000
	// maxLocations bounds the bytes of all locations in an answer. Each part of one counts partBytes and its text: a
	// thousand violations may be thousands of objects deep, or below one key that is as long as a body.
	maxLocations = 256 << 10
	partBytes    = 10
)

// violationList is the violations of one answer, as many as it may have.
type violationList struct {
	all       []Violation
	locations int
}

// full reports whether further violations are left out.
func (l *violationList) full() bool {
	return len(l.all) >= maxViolations || l.locations >= maxLocations
}

func (l *violationList) add(found ...Violation) {
	for _, v := range found {
		if l.full() {
			return
		}
		for _, part := range v.Loc {
			text, _ := part.(string)
			l.locations += partBytes + len(text)
		}
		l.all = append(l.all, v)
	}
}

// validation validates one document by the keywords that enforce knows.
type validation struct {
	patterns map[string]*regexp.Regexp
	found    violationList
}

func (v *validation) report(loc []any, typ, msg string, ctx map[string]any) {
	v.found.add(Violation{Loc: loc, Type: typ, Msg: msg, Ctx: ctx})
}

// check reports the violations of a value at a location. A value of a wrong type has no other violation.
func (v *validation) check(s *infer.Schema, loc []any, value any) {
	if want := typesOf(s); len(want) > 0 && !slices.ContainsFunc(want, func(t string) bool { return isOf(t, value) }) {
		typ, msg := wrongType(want, value)
		if typ == "dict_type" && len(s.Properties) > 0 {
			typ, msg = "model_attributes_type", "Input should be a valid dictionary or object to extract fields from"
		}
		v.report(loc, typ, msg, nil)
		return
	}
	if s.Enum != nil && !slices.Contains(s.Enum, value) {
		expected := quoteAlternatives(s.Enum)
		v.report(loc, "enum", "Input should be "+expected, map[string]any{"expected": expected})
		return
	}
	switch value := value.(type) {
	case string:
		v.checkText(s, loc, value)
	case json.Number:
		v.checkNumber(s, loc, value)
	case map[string]any:
		v.checkObject(s, loc, value)
	case []any:
		v.checkSize("List", loc, len(value), s.MinItems, s.MaxItems)
		for i, element := range value {
			if s.Items != nil {
				v.check(s.Items, append(loc[:len(loc):len(loc)], i), element)
			}
		}
	}
}

func (v *validation) checkText(s *infer.Schema, loc []any, text string) {
	if f, ok := formatNamed(s.Format); ok && f.check(text) != nil {
		v.report(loc, f.typ, f.msg, f.ctx)
	}
	length := utf8.RuneCountInString(text)
	if s.MinLength != nil && length < *s.MinLength {
		v.report(loc, "string_too_short", "String should have at least "+countCharacters(*s.MinLength),
			map[string]any{"min_length": *s.MinLength})
	}
	if s.MaxLength != nil && length > *s.MaxLength {
		v.report(loc, "string_too_long", "String should have at most "+countCharacters(*s.MaxLength),
			map[string]any{"max_length": *s.MaxLength})
	}
	if s.Pattern != "" && !v.patterns[s.Pattern].MatchString(text) {
		v.report(loc, "string_pattern_mismatch", "String should match pattern '"+s.Pattern+"'",
			map[string]any{"pattern": s.Pattern})
	}
	if why := unshowable(text); s.Extra[textKeyword] == true && why != "" {
		v.report(loc, "value_error", "Value error, "+why, map[string]any{"error": why})
	}
}

func (v *validation) checkNumber(s *infer.Schema, loc []any, number json.Number) {
	n, _ := number.Float64() // infinite if it is out of range
	if s.Minimum != nil && n < *s.Minimum {
		v.report(loc, "greater_than_equal", "Input should be greater than or equal to "+formatNumber(*s.Minimum),
			map[string]any{"ge": json.Number(formatNumber(*s.Minimum))})
	}
	if s.Maximum != nil && n > *s.Maximum {
		v.report(loc, "less_than_equal", "Input should be less than or equal to "+formatNumber(*s.Maximum),
			map[string]any{"le": json.Number(formatNumber(*s.Maximum))})
	}
}

func (v *validation) checkObject(s *infer.Schema, loc []any, object map[string]any) {
	v.checkSize("Dictionary", loc, len(object), s.MinProperties, s.MaxProperties)
	inside := func(name string) []any { return append(loc[:len(loc):len(loc)], name) }
	for _, name := range s.Required {
		if _, ok := object[name]; !ok {
			v.report(inside(name), "missing", "Field required", nil)
		}
	}
	names := slices.AppendSeq(make([]string, 0, len(object)), maps.Keys(object))
	slices.Sort(names)
	for _, name := range names {
		if p := s.Properties[name]; p != nil {
			v.check(p, inside(name), object[name])
		} else if s.AdditionalProperties != nil {
			v.check(s.AdditionalProperties, inside(name), object[name])
		}
	}
}

// checkSize reports a list with too few or too many elements, or an object with such properties.
func (v *validation) checkSize(what string, loc []any, got int, least, most *int) {
	report := func(typ, key, bound string, want int) {
		items := "items"
		if want == 1 {
			items = "item"
		}
		v.report(loc, typ,
			fmt.Sprintf("%s should have %s %d %s after validation, not %d", what, bound, want, items, got),
			map[string]any{"field_type": what, key: want, "actual_length": got})
	}
	if least != nil && got < *least {
		report("too_short", "min_length", "at least", *least)
	}
	if most != nil && got > *most {
		report("too_long", "max_length", "at most", *most)
	}
}

// typesOf returns the types that a schema allows; none if it allows all.
func typesOf(s *infer.Schema) []string {
	if s.Type != "" {
		return []string{s.Type}
	}
	return s.Types
}

// isOf reports whether a value has a JSON type. relax has converted the other forms of a whole number.
func isOf(typ string, value any) bool {
	switch value := value.(type) {
	case nil:
		return typ == "null"
	case bool:
		return typ == "boolean"
	case string:
		return typ == "string"
	case json.Number:
		return typ == "number" || typ == "integer" && !strings.ContainsAny(string(value), ".eE")
	case []any:
		return typ == "array"
	default:
		return typ == "object"
	}
}

// wrongType returns the violation for a value of the wrong type.
func wrongType(want []string, value any) (typ, msg string) {
	expected := want[len(want)-1]
	if expected == "null" {
		expected = want[0]
	}
	switch expected {
	case "string":
		return "string_type", "Input should be a valid string"
	case "boolean":
		if resemblesBool(value) {
			return "bool_parsing", "Input should be a valid boolean, unable to interpret input"
		}
		return "bool_type", "Input should be a valid boolean"
	case "integer":
		return wrongInteger(value)
	case "number":
		if _, ok := value.(string); ok {
			return "float_parsing", "Input should be a valid number, unable to parse string as a number"
		}
		return "float_type", "Input should be a valid number"
	case "array":
		return "list_type", "Input should be a valid list"
	default:
		return "dict_type", "Input should be a valid dictionary"
	}
}

func wrongInteger(value any) (typ, msg string) {
	switch value.(type) {
	case string:
		return "int_parsing", "Input should be a valid integer, unable to parse string as an integer"
	case json.Number:
		return "int_from_float", "Input should be a valid integer, got a number with a fractional part"
	default:
		return "int_type", "Input should be a valid integer"
	}
}

// quoteAlternatives lists the values of an enumeration. Example: 'a', 'b' or 'c'.
func quoteAlternatives(want []any) string {
	quoted := make([]string, 0, len(want))
	for _, w := range want {
		if w != nil {
			quoted = append(quoted, fmt.Sprintf("'%v'", w))
		}
	}
	if len(quoted) == 1 {
		return quoted[0]
	}
	return strings.Join(quoted[:len(quoted)-1], ", ") + " or " + quoted[len(quoted)-1]
}

func countCharacters(n int) string {
	if n == 1 {
		return "1 character"
	}
	return strconv.Itoa(n) + " characters"
}

func formatNumber(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
