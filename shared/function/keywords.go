package function

import (
	"fmt"
	"reflect"
	"regexp"

	infer "github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"
)

// Requests are validated by own code, which knows the keywords that their schemas have. The libraries that report every
// violation compile the metaschemas of all drafts of JSON Schema before main: half of the CPU of a cold start.

// enforce compiles the patterns of a schema. It returns an error for a schema with a keyword or format that validation
// would ignore.
func enforce(s *infer.Schema, patterns map[string]*regexp.Regexp) error {
	rest := *s
	// Notes for people.
	rest.Title, rest.Description, rest.Default, rest.Examples, rest.Deprecated = "", "", nil, nil, false
	rest.Extra, rest.PropertyOrder = nil, nil
	// What validation knows.
	rest.Type, rest.Types, rest.Enum, rest.Format, rest.Pattern = "", nil, nil, "", ""
	rest.MinLength, rest.MaxLength, rest.Minimum, rest.Maximum = nil, nil, nil, nil
	rest.MinProperties, rest.MaxProperties, rest.Required = nil, nil, nil
	rest.MinItems, rest.MaxItems = nil, nil
	rest.Properties, rest.AdditionalProperties, rest.Items = nil, nil, nil
	if !reflect.ValueOf(rest).IsZero() {
		return fmt.Errorf("a keyword is not validated: %v", &rest)
	}
	if _, known := formatNamed(s.Format); s.Format != "" && !known {
		return fmt.Errorf("the format %q is not validated", s.Format)
	}
	for _, value := range s.Enum {
		if _, text := value.(string); !text && value != nil {
			return fmt.Errorf("the value %v of an enumeration is not a string", value)
		}
	}
	if s.Pattern != "" {
		pattern, err := regexp.Compile(s.Pattern)
		if err != nil {
			return err
		}
		patterns[s.Pattern] = pattern
	}
	for _, p := range s.Properties {
		if err := enforce(p, patterns); err != nil {
			return err
		}
	}
	for _, inner := range []*infer.Schema{s.AdditionalProperties, s.Items} {
		if inner == nil {
			continue
		}
		if err := enforce(inner, patterns); err != nil {
			return err
		}
	}
	return nil
}

// format is a format of texts, and the violation of a text that does not have it.
type format struct {
	check    func(string) error
	typ, msg string
	ctx      map[string]any
}

// formatNamed returns a format that validation knows.
func formatNamed(name string) (format, bool) {
	switch name {
	case "uuid":
		return format{check: checkUUID, typ: "uuid_parsing", msg: "Input should be a valid UUID"}, true
	case "date-time":
		return format{
			check: checkTime, typ: "datetime_from_date_parsing", msg: "Input should be a valid datetime",
		}, true
	case SinceFormat:
		return format{
			check: checkSince, typ: "value_error", msg: "Value error, " + errNotSince.Error(),
			ctx: map[string]any{"error": errNotSince.Error()},
		}, true
	default:
		return format{}, false
	}
}

// checkUUID accepts the four textual forms of RFC 9562 and its ancestors: hyphenated, simple, braced and URN.
func checkUUID(text string) error {
	if len(text) == 38 && (text[0] != '{' || text[37] != '}') {
		return fmt.Errorf("braces do not match")
	}
	return uuid.Validate(text)
}
