package function

import (
	"encoding/json"
	"math"
	"math/big"
	"strconv"
	"strings"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// relax converts values in place like pydantic's lax mode: integers and booleans written as strings, booleans written
// as numbers, and strings with surrounding white space where the schema trims them. It leaves a value that it cannot
// convert unchanged, and validation reports it.
func relax(s *infer.Schema, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if e, ok := v[name]; ok {
				v[name] = relax(p, e)
			}
		}
		return v
	case []any:
		for i, e := range v {
			if s.Items != nil {
				v[i] = relax(s.Items, e)
			}
		}
		return v
	default:
		return relaxScalar(s, v)
	}
}

func relaxScalar(s *infer.Schema, value any) any {
	switch {
	case allowsType(s, "boolean"):
		if b, ok := parseBool(value); ok {
			return b
		}
	case allowsType(s, "integer"):
		if n, ok := parseInteger(value); ok {
			return n
		}
	case allowsType(s, "string"):
		if text, ok := value.(string); ok && s.Extra[textKeyword] == true {
			return strings.TrimSpace(text)
		}
	}
	return value
}

// allowsType reports whether the schema allows values of a JSON type.
func allowsType(s *infer.Schema, typ string) bool {
	if s.Type == typ {
		return true
	}
	for _, t := range s.Types {
		if t == typ {
			return true
		}
	}
	return false
}

func parseBool(value any) (b, ok bool) {
	switch v := value.(type) {
	case bool:
		return v, true
	case string:
		switch strings.ToLower(v) {
		case "1", "true", "t", "yes", "y", "on":
			return true, true
		case "0", "false", "f", "no", "n", "off":
			return false, true
		}
	case json.Number:
		switch n, _ := parseInteger(v); n {
		case "1":
			return true, true
		case "0":
			return false, true
		}
	}
	return false, false
}

// resemblesBool reports whether a value that is not a boolean has a type that parseBool reads: text or a whole number.
func resemblesBool(value any) bool {
	switch v := value.(type) {
	case string:
		return true
	case json.Number:
		return !strings.ContainsAny(v.String(), ".eE")
	default:
		return false
	}
}

// maxIntegerText is the longest text that is parsed as a number, because big.Rat is slow on very long ones.
const maxIntegerText = 32

func parseInteger(value any) (json.Number, bool) {
	var text string
	switch v := value.(type) {
	case bool:
		if v {
			return "1", true
		}
		return "0", true
	case string:
		text = strings.TrimSpace(v)
	case json.Number:
		if text = v.String(); strings.ContainsAny(text, "eE") {
			return parseExponent(text)
		}
	default:
		return "", false
	}
	if len(text) > maxIntegerText || strings.ContainsAny(text, "eE/xX") {
		return "", false
	}
	n, ok := new(big.Rat).SetString(text)
	if !ok || !n.IsInt() {
		return "", false
	}
	return json.Number(n.Num().String()), true
}

// parseExponent parses a whole number with an exponent, such as 1e2, if a float64 holds it exactly.
func parseExponent(text string) (json.Number, bool) {
	const exact = 1 << 53
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || n != math.Trunc(n) || math.Abs(n) > exact {
		return "", false
	}
	return json.Number(strconv.FormatFloat(n, 'f', 0, 64)), true
}
