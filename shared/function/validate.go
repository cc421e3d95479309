package function

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"agents.example/controlplane/shared/fault"
)

// Violation is one entry of a validation error.
type Violation = fault.Violation

// violations validates a request document and returns every violation in the vocabulary of pydantic v2. Unlike
// pydantic's, the entries have no "input": any field may hold a secret.
func (s *inputSchema) violations(document map[string]any) []Violation {
	var found []Violation
	var failed *validator.ValidationError
	if err := s.compiled.Validate(document); errors.As(err, &failed) {
		visitLeaves(failed, func(leaf *validator.ValidationError) {
			found = append(found, translate(leaf, document)...)
		})
	}
	if body, ok := document["body"].(map[string]any); ok {
		for _, check := range s.checks {
			found = append(found, check(body)...)
		}
	}
	return found
}

// visitLeaves visits the errors without causes, which name the failed keywords.
func visitLeaves(e *validator.ValidationError, visit func(*validator.ValidationError)) {
	if len(e.Causes) == 0 {
		visit(e)
	}
	for _, c := range e.Causes {
		visitLeaves(c, visit)
	}
}

// translate converts one failed keyword to pydantic's violations.
func translate(e *validator.ValidationError, document map[string]any) []Violation {
	loc, value := locateValue(e.InstanceLocation, document)
	one := func(typ, msg string, ctx map[string]any) []Violation {
		return []Violation{{Loc: loc, Type: typ, Msg: msg, Ctx: ctx}}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		var missing []Violation
		for _, name := range k.Missing {
			missing = append(missing,
				Violation{Loc: append(loc[:len(loc):len(loc)], name), Type: "missing", Msg: "Field required"})
		}
		return missing
	case *kind.Type:
		typ, msg := wrongType(k.Want, loc, value)
		return one(typ, msg, nil)
	case *kind.Enum:
		expected := quoteAlternatives(k.Want)
		return one("enum", "Input should be "+expected, map[string]any{"expected": expected})
	case *kind.MinLength:
		return one("string_too_short", "String should have at least "+countCharacters(k.Want),
			map[string]any{"min_length": k.Want})
	case *kind.MaxLength:
		return one("string_too_long", "String should have at most "+countCharacters(k.Want),
			map[string]any{"max_length": k.Want})
	case *kind.Minimum:
		return one("greater_than_equal", "Input should be greater than or equal to "+formatNumber(k.Want),
			map[string]any{"ge": json.Number(formatNumber(k.Want))})
	case *kind.Maximum:
		return one("less_than_equal", "Input should be less than or equal to "+formatNumber(k.Want),
			map[string]any{"le": json.Number(formatNumber(k.Want))})
	case *kind.MinProperties:
		return one("too_short",
			fmt.Sprintf("Dictionary should have at least %d items after validation, not %d", k.Want, k.Got),
			map[string]any{"field_type": "Dictionary", "min_length": k.Want, "actual_length": k.Got})
	case *kind.MaxProperties:
		return one("too_long",
			fmt.Sprintf("Dictionary should have at most %d items after validation, not %d", k.Want, k.Got),
			map[string]any{"field_type": "Dictionary", "max_length": k.Want, "actual_length": k.Got})
	case *kind.Format:
		switch k.Want {
		case "uuid":
			return one("uuid_parsing", "Input should be a valid UUID", nil)
		case SinceFormat:
			return one("value_error", "Value error, "+errNotSince.Error(), map[string]any{"error": errNotSince.Error()})
		}
		return one("datetime_from_date_parsing", "Input should be a valid datetime", nil)
	case *kind.Pattern:
		return one("string_pattern_mismatch", "String should match pattern '"+k.Want+"'",
			map[string]any{"pattern": k.Want})
	default:
		return one("value_error", "Value error, the value is not valid", nil)
	}
}

// wrongType returns the violation for a value of the wrong type.
func wrongType(want []string, loc []any, value any) (typ, msg string) {
	expected := want[len(want)-1]
	if expected == "null" && len(want) > 1 {
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
		if len(loc) == 1 {
			return "model_attributes_type", "Input should be a valid dictionary or object to extract fields from"
		}
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

// locateValue converts a JSON path into pydantic's location, in which indexes are numbers, and finds the value there.
func locateValue(path []string, document map[string]any) (loc []any, value any) {
	value = document
	for _, step := range path {
		switch v := value.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return append(loc, step), nil
			}
			loc, value = append(loc, i), v[i]
		case map[string]any:
			loc, value = append(loc, step), v[step]
		}
	}
	return loc, value
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

func formatNumber(r *big.Rat) string { return r.RatString() }
