package agent

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
)

// Limits of an agent's environment.
const (
	MaxEnvKeys       = 100
	MaxEnvValueBytes = 8 << 10
	MaxEnvBytes      = 64 << 10
)

// envKey and the other patterns of this package are compiled when they are first used: most programs that import the
// package never use them, and compiling took most of the start of the command line tool.
var envKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`) })

// EnvKeyViolation returns why a client may not set a key, or "" if it may.
func EnvKeyViolation(key string) string {
	upper := strings.ToUpper(key)
	switch {
	case !envKey().MatchString(key):
		return "a key must have 1 to 128 letters, digits and underscores and must not begin with a digit"
	case strings.HasPrefix(upper, "DASHBOARD_"), upper == "API_SERVER_KEY",
		strings.Contains(upper, "_DASHBOARD_BASIC_AUTH_"), strings.HasSuffix(upper, "_GATEWAY_TOKEN"):
		return reservedForCredentials(upper)
	case slices.Contains(dataplane.OwnVariables(), upper), upper == importURL:
		return "the key is reserved for the platform, which sets it: leave it out"
	case strings.HasPrefix(upper, "KUBERNETES_"), strings.HasPrefix(upper, "LD_"), upper == "PATH", upper == "PORT":
		return "the key is reserved for the platform"
	default:
		return ""
	}
}

// reservedForCredentials says what to do in place of setting a credential.
func reservedForCredentials(key string) string {
	const why = "the key is reserved for the agent's dashboard and API authentication: leave it out, because the " +
		"platform makes these credentials"
	if slices.Contains(dataplane.CredentialVariables(), key) {
		return why
	}
	return why + `. The operator of the image can give it the API key under this name, with "auth": "image" and ` +
		`"env": {"` + key + `": "$(API_SERVER_KEY)"} in the catalog`
}

// EnvViolations checks a client's env_vars as decoded from JSON. Each key is reported once, for the first rule that it
// breaks. keyRules follow the rules of every key; each returns what is wrong, or "". The schema checks the values'
// types. No violation quotes a value.
func EnvViolations(env map[string]any, keyRules ...func(key string, value any) string) []fault.Violation {
	rules := append([]func(string, any) string{keyViolation}, keyRules...)
	rules = append(rules, valueViolation)
	var found []fault.Violation
	total := 0
	for _, key := range sortedKeys(env) {
		for _, rule := range rules {
			if why := rule(key, env[key]); why != "" {
				found = append(found, fault.ValueError([]any{"body", "env_vars", key}, why))
				break
			}
		}
		if value, ok := env[key].(string); ok {
			total += len(key) + len(value)
		}
	}
	if len(env) > MaxEnvKeys {
		found = append(found, fault.ValueError([]any{"body", "env_vars"},
			fmt.Sprintf("at most %d keys are allowed", MaxEnvKeys)))
	}
	if total > MaxEnvBytes {
		found = append(found, fault.ValueError([]any{"body", "env_vars"},
			fmt.Sprintf("keys and values must not exceed %d bytes in total", MaxEnvBytes)))
	}
	return found
}

func keyViolation(key string, _ any) string { return EnvKeyViolation(key) }

func valueViolation(_ string, value any) string {
	text, _ := value.(string)
	switch {
	case len(text) > MaxEnvValueBytes:
		return fmt.Sprintf("a value must not exceed %d bytes", MaxEnvValueBytes)
	case strings.ContainsRune(text, 0):
		return "a value must not contain NUL characters"
	default:
		return ""
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// PlainEnv returns the plain variables for the record, sorted by key. It leaves out secrets: the record names them only
// once they are in the secret store.
func PlainEnv(env map[string]string) []EnvVar {
	vars := make([]EnvVar, 0, len(env))
	for _, key := range sortedKeys(env) {
		if !isSecret(key, env[key]) {
			vars = append(vars, EnvVar{Key: key, Value: env[key]})
		}
	}
	return vars
}

// SecretEnv returns the variables whose values belong in the secret store.
func SecretEnv(env map[string]string) map[string]string {
	secrets := map[string]string{}
	for key, value := range env {
		if isSecret(key, value) {
			secrets[key] = value
		}
	}
	return secrets
}

// isSecret reports whether the value of a new variable belongs in the secret store.
func isSecret(key, value string) bool { return LooksSecret(key) || LooksSecretValue(value) }

// SortEnv sorts variables by key.
func SortEnv(vars []EnvVar) {
	slices.SortFunc(vars, func(a, b EnvVar) int { return strings.Compare(a.Key, b.Key) })
}
