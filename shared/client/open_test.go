package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"agents.example/controlplane/shared/client"
)

// TestConfig_KeepsNumbers decodes the client's own keys. The ids of other services have more digits than a float64, and
// no number makes an answer unreadable.
func TestConfig_KeepsNumbers(t *testing.T) {
	t.Parallel()
	const text = `{"channel":1234567890123456789,"huge":1e400,"rate":0.5,"retries":3,"rooms":[{"id":-9007199254740993}]}`
	var config client.AgentConfig
	if err := json.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"channel": json.Number("1234567890123456789"), "huge": json.Number("1e400"), "rate": 0.5, "retries": 3.0,
		"rooms": []any{map[string]any{"id": json.Number("-9007199254740993")}},
	}
	if got := config.AdditionalProperties; !reflect.DeepEqual(got, want) {
		t.Errorf("the keys are %#v, want %#v", got, want)
	}
	encoded, err := json.Marshal(config.AdditionalProperties)
	if err != nil || string(encoded) != text {
		t.Errorf("sent back: %s, %v, want %s", encoded, err, text)
	}
}
