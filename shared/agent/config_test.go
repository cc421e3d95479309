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

// TestConfigViolations_CountTheClientsKeysOnly sends back the config that an agent shows, whose own keys are as large
// and as deep as they may be.
func TestConfigViolations_CountTheClientsKeysOnly(t *testing.T) {
	t.Parallel()
	deep := map[string]any{}
	for range agent.MaxConfigDepth - 2 {
		deep = map[string]any{"a": deep}
	}
	config := map[string]any{"deep": deep, "text": ""}
	b, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("<", agent.MaxConfigBytes-len(b))
	config["text"] = text
	config["provisioning_stages"] = []any{map[string]any{"name": "route", "deep": deep}}
	if found := agent.ConfigViolations(config); len(found) > 0 {
		t.Errorf("violations %+v, want none", found)
	}
	a := in(agent.Running)
	if err := a.Apply(agent.Patch{Config: config}, at(1)); err != nil || len(a.Config) != agent.MaxConfigBytes {
		t.Errorf("the agent has %d bytes (%v), want %d", len(a.Config), err, agent.MaxConfigBytes)
	}
	former := a
	if former.Config, err = json.Marshal(map[string]any{"deep": deep, "text": text}); err != nil {
		t.Fatal(err)
	}
	generation := former.Generation
	if err := former.Apply(agent.Patch{Config: config}, at(1)); err != nil || former.Generation != generation {
		t.Errorf("the generation %d becomes %d (%v), want the same for what a former release wrote with escapes",
			generation, former.Generation, err)
	}
	config["text"] = text + "x"
	if found := agent.ConfigViolations(config); len(found) != 1 {
		t.Errorf("violations %+v, want one", found)
	}
}
