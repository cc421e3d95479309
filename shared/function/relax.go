package function

import (
	"encoding/json"
	"math/big"
	"strings"

	infer "github.com/google/jsonschema-go/jsonschema"
)

// relax applies, in place, the conversions that pydantic's lax mode makes before it validates: numbers and booleans
// written as strings, booleans written as numbers, and strings whose surrounding white space does not count. What does
// not convert stays as it is, for the validation to report.
func relax(s *infer.Schema, value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, p := range s.Properties {
			if e, ok := v[name]; ok {
				v[name] = relax(p, e)
			}
		}
		return v
	default:
		return relaxScalar(s, v)
	}
}

func relaxScalar(s *infer.Schema, value any) any {
	switch {
	case wants(s, "boolean"):
		if b, ok := laxBool(value); ok {
			return b
		}
	case wants(s, "integer"):
		if n, ok := laxInteger(value); ok {
			return n
		}
	case wants(s, "string"):
		if text, ok := value.(string); ok && s.Extra[trimKeyword] == true {
			return strings.TrimSpace(text)
		}
	}
	return value
}

func wants(s *infer.Schema, typ string) bool {
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

func laxBool(value any) (b, ok bool) {
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
		if n, valid := new(big.Rat).SetString(v.String()); valid && n.IsInt() {
			switch n.Num().String() {
			case "1":
				return true, true
			case "0":
				return false, true
			}
		}
	}
	return false, false
}

// unparsedBool reports whether a value that is no boolean is of a kind that could have been one: text, or a whole
// number.
func unparsedBool(value any) bool {
	switch v := value.(type) {
	case string:
		return true
	case json.Number:
		return !strings.ContainsAny(v.String(), ".eE")
	default:
		return false
	}
}

// maxIntegerText bounds what is parsed as a number, so that a long one costs nothing.
const maxIntegerText = 32

func laxInteger(value any) (json.Number, bool) {
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
		text = v.String()
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
