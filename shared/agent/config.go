package agent

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"agents.example/controlplane/shared/fault"
)

// Limits of a client's config object.
const (
	MaxConfigBytes = 32 << 10
	MaxConfigDepth = 8
)

// reservedConfig lists the keys of config that the control plane fills: the fields of ConfigView. A client's values for
// them are ignored.
func reservedConfig() []string {
	var keys []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[ConfigView]()) {
		if key, _, _ := strings.Cut(field.Tag.Get("json"), ","); key != "-" {
			keys = append(keys, cmp.Or(key, field.Name))
		}
	}
	return keys
}

// clientKeys returns a config without the reserved keys.
func clientKeys(config map[string]any) map[string]any {
	own := maps.Collect(maps.All(config))
	for _, k := range reservedConfig() {
		delete(own, k)
	}
	return own
}

// ConfigViolations checks the size and depth of a client's config as decoded from JSON. The reserved keys do not count:
// a client may send back the whole config that it got.
func ConfigViolations(config map[string]any) []fault.Violation {
	var found []fault.Violation
	loc, own := []any{"body", "config"}, clientKeys(config)
	if b, err := ClientConfig(own); err == nil && len(b) > MaxConfigBytes {
		found = append(found, fault.ValueError(loc,
			fmt.Sprintf("config must not exceed %d bytes as JSON", MaxConfigBytes)))
	}
	if depth(own) > MaxConfigDepth {
		found = append(found, fault.ValueError(loc,
			fmt.Sprintf("config must not be nested more than %d levels deep", MaxConfigDepth)))
	}
	return found
}

// ClientConfig encodes a client's config for the record, without the reserved keys. Signs of HTML have one byte, as in
// what the client sends and gets.
func ClientConfig(config map[string]any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(clientKeys(config))
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// hasConfig reports whether a config has any of the client's keys.
func hasConfig(config json.RawMessage) bool { return len(config) > len("{}") }

// ConfigFile is the content of the file with the client's config that the agent's pod has; nil for none. A pod of a
// former release has none, until it is replaced.
func (a Agent) ConfigFile() []byte {
	if !hasConfig(a.Config) || a.NameAtStart == "" {
		return nil
	}
	return a.Config
}

func depth(v any) int {
	deepest := 0
	switch v := v.(type) {
	case map[string]any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	case []any:
		for _, e := range v {
			deepest = max(deepest, depth(e))
		}
	default:
		return 0
	}
	return deepest + 1
}
