package agent_test

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"agents.example/controlplane/shared/agent"
)

// TestClientConfig_DropsEveryKeyOfTheControlPlane goes through the fields of ConfigView: a client's value under one of
// their names would be stored, but the control plane's value would hide it from the client.
func TestClientConfig_DropsEveryKeyOfTheControlPlane(t *testing.T) {
	t.Parallel()
	fields := reflect.VisibleFields(reflect.TypeFor[agent.ConfigView]())
	for _, f := range fields {
		key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if key == "-" {
			continue
		}
		key = cmp.Or(key, f.Name)
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			stored, err := agent.ClientConfig(map[string]any{key: "the client's own", "mine": true})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := string(stored), `{"mine":true}`; got != want {
				t.Errorf("created with %q: stored %s, want %s", key, got, want)
			}
			a := in(agent.Running)
			a.Config = json.RawMessage(`{"mine":true}`)
			if err := a.Apply(agent.Patch{Config: map[string]any{key: "the client's own"}}, at(1)); err != nil {
				t.Fatal(err)
			}
			if got, want := string(a.Config), `{"mine":true}`; got != want {
				t.Errorf("patched with %q: stored %s, want %s", key, got, want)
			}
		})
	}
}
