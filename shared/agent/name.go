package agent

import (
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

// Name is a display name: 1 to 120 characters (code points) after trimming, without control characters.
type Name string

// MaxName is how many characters a name has at most.
const MaxName = 120

// JSONSchema implements function.Schemer.
func (Name) JSONSchema() *jsonschema.Schema {
	least, most := 1, MaxName
	return &jsonschema.Schema{
		Type: "string", MinLength: &least, MaxLength: &most, Extra: map[string]any{"x-trim-whitespace": true},
		Description: "Display name. Surrounding white space is removed; control characters are refused.",
	}
}

// Cloud is a cloud partner id.
type Cloud string

// DefaultCloud is the only partner there is.
const DefaultCloud = "gcp"

// Values lists the partners.
func (Cloud) Values() []string { return []string{DefaultCloud} }

// CreateViolations checks the body of a creation beyond its schema.
func CreateViolations(body map[string]any) []fault.Violation {
	return bodyViolations(body, func(key string, value any) string {
		if LooksSecret(key) && value == "" {
			return "a secret is not empty"
		}
		return ""
	})
}

// bodyViolations checks what a creation and a patch have in common; secretRule is theirs for keys of secrets.
func bodyViolations(body map[string]any, secretRule func(key string, value any) string) []fault.Violation {
	var found []fault.Violation
	if name, ok := body["name"].(string); ok && hasControl(name) {
		found = append(found, invalid([]any{"body", "name"}, "a name holds no control characters"))
	}
	if env, ok := body["env_vars"].(map[string]any); ok {
		found = append(found, EnvViolations(env, secretRule)...)
	}
	if config, ok := body["config"].(map[string]any); ok {
		found = append(found, ConfigViolations(config)...)
	}
	return found
}

func hasControl(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return true
		}
	}
	return false
}
