package agent_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agent/agenttest"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// TestShow_FillsEveryField fails for a field of the view that Show forgets: clients would always get its zero value.
func TestShow_FillsEveryField(t *testing.T) {
	t.Parallel()
	admin := identity.Caller{Type: identity.Session, Role: identity.RoleAdmin, OrganizationID: "o"}
	v := agenttest.FullAgent(time.Now()).Show(admin, agent.Addresses{Domain: "agents.example.com", Scheme: "https"})
	elsewhere := []string{"DashboardHandoff"} // made by the route, which has the signing key
	for _, shown := range []any{v, v.Config, v.Config.ProvisioningStages[0], v.Config.PlanLimits} {
		value := reflect.ValueOf(shown)
		for i := range value.NumField() {
			name := value.Type().Field(i).Name
			if value.Field(i).IsZero() && !slices.Contains(elsewhere, name) {
				t.Errorf("%s.%s is zero for an agent with every field set: set it in Show", value.Type().Name(), name)
			}
		}
	}
}

// encode writes a value as functions did before AppendJSON.
func encode(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// encodeConfig writes a config by its tags: the control plane's keys, or with keys of the client all of them, sorted.
func encodeConfig(t *testing.T, c agent.ConfigView) string {
	t.Helper()
	type plain agent.ConfigView
	b, err := json.Marshal(plain(c))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Own) == 0 {
		return string(b)
	}
	all := maps.Clone(c.Own)
	var reserved map[string]json.RawMessage
	if err := json.Unmarshal(b, &reserved); err != nil {
		t.Fatal(err)
	}
	for key, value := range reserved {
		all[key] = value
	}
	if b, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestAppendJSON_WritesWhatEncodingJSONWrites compares every field of views with what encoding/json makes of their
// tags.
func TestAppendJSON_WritesWhatEncodingJSONWrites(t *testing.T) {
	t.Parallel()
	const odd = "<b>&\"\\\n\x00\x7f\xff\u2028é"
	admin := identity.Caller{Type: identity.Session, Role: identity.RoleAdmin, OrganizationID: "o"}
	addresses := agent.Addresses{Domain: "agents.example.com", Scheme: "https", Port: "8443"}
	at := time.Date(2026, 3, 4, 5, 6, 7, 890000000, time.FixedZone("", 3600))
	full, texts := agenttest.FullAgent(at), agenttest.FullAgent(at.UTC())
	texts.Name, texts.Region, texts.Failure.Message, texts.Stages[0].Message = odd, odd, odd, odd
	texts.Env[0].Key, texts.StatusReason = odd, odd
	texts.Config = json.RawMessage(`{"<k>": [1.50, 1e30, {"a": "<&>"}], "error": "mine", "z": null, "a": {}}`)
	plain := agent.New(agenttest.ID(), "cell", agent.Draft{Name: "n", Plan: plan.Hobby}, at)
	withLink := full.Show(admin, addresses)
	withLink.DashboardHandoff = &withLink.ID
	for name, v := range map[string]agent.View{
		"every field": full.Show(admin, addresses), "member": full.Show(identity.Caller{}, addresses),
		"odd texts": texts.Show(admin, addresses), "new": plain.Show(admin, addresses), "zero": {}, "link": withLink,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			type fields agent.View // without methods
			got, err := v.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := encode(t, fields(v)); string(got) != want {
				t.Errorf("AppendJSON = %s\nwant         %s", got, want)
			}
			config, err := v.Config.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if want := encodeConfig(t, v.Config); string(config) != want {
				t.Errorf("MarshalJSON = %s\nwant          %s", config, want)
			}
		})
	}
}
