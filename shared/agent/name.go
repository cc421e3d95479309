package agent

import (
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/fault"
)

// Name is an agent's display name: 1 to 120 code points after trimming, all of which can be shown.
type Name string

// MaxName is the maximum number of characters in a name.
const MaxName = 120

// JSONSchema implements function.Schemer.
func (Name) JSONSchema() *jsonschema.Schema {
	least, most := 1, MaxName
	return &jsonschema.Schema{
		Type: "string", MinLength: &least, MaxLength: &most, Extra: map[string]any{"x-text": true},
		Description: "Display name. Surrounding whitespace is removed; control characters are refused.",
	}
}

// Cloud is a cloud partner id.
type Cloud string

// DefaultCloud is the only cloud partner.
const DefaultCloud = "gcp"

// Values lists the cloud partners.
func (Cloud) Values() []string { return []string{DefaultCloud} }

// CreateViolations checks what the schema of a creation can't express.
func CreateViolations(body map[string]any) []fault.Violation {
	found := bodyViolations(body, func(key string, value any) string {
		if LooksSecret(key) && value == "" {
			return "a secret must not be empty"
		}
		return ""
	})
	env, _ := body["env_vars"].(map[string]any)
	return append(found, fileViolations(body, true, func(key string) string {
		if value, ok := env[key].(string); !ok || !isSecret(key, value) {
			return "env_vars has no secret with this key"
		}
		return ""
	})...)
}

// bodyViolations checks the body of a creation or a patch. They differ in secretRule, the rule for secrets in env_vars.
func bodyViolations(body map[string]any, secretRule func(key string, value any) string) []fault.Violation {
	var found []fault.Violation
	if env, ok := body["env_vars"].(map[string]any); ok {
		found = append(found, EnvViolations(env, secretRule)...)
	}
	if config, ok := body["config"].(map[string]any); ok {
		found = append(found, ConfigViolations(config)...)
	}
	return slices.Concat(found, publicPathViolations(body), EgressViolations(body), scheduleViolations(body))
}
