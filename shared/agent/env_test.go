package agent_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
)

const (
	badPattern       = "a key must have 1 to 128 letters, digits and underscores and must not begin with a digit"
	reservedForAgent = "the key is reserved for the agent's dashboard and API authentication: leave it out, because " +
		"the platform makes these credentials"
	reservedForPlatform = "the key is reserved for the platform, which sets it: leave it out"
	isSecret            = "the key names a secret; set or delete it with PUT /agents/{agent_id}/secrets"
	valueIsSecret       = "the value looks like a secret; set it with PUT /agents/{agent_id}/secrets"
	secretIsEmpty       = "a secret must not be empty"
	tooLong             = "a value must not exceed 8192 bytes"
)

// withKey is what a client does who wants an image's own name for the API key.
func withKey(name string) string {
	return reservedForAgent + `. The operator of the image can give it the API key under this name, with "auth": ` +
		`"image" and "env": {"` + name + `": "$(API_SERVER_KEY)"} in the catalog`
}

func TestEnvViolations_ReportAKeyOnceByItsFirstRule(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", agent.MaxEnvValueBytes+1)
	for _, c := range []struct {
		key            string
		value          any
		create, update string
	}{
		{key: "A-TOKEN", value: "", create: badPattern, update: badPattern},
		{key: "A-B", value: long, create: badPattern, update: badPattern},
		{key: "DASHBOARD_TOKEN", value: "", create: withKey("DASHBOARD_TOKEN"), update: withKey("DASHBOARD_TOKEN")},
		{
			key: "OPENCLAW_GATEWAY_TOKEN", value: "x", create: withKey("OPENCLAW_GATEWAY_TOKEN"),
			update: withKey("OPENCLAW_GATEWAY_TOKEN"),
		},
		{key: "AGENT_URL", value: "x", create: reservedForPlatform, update: reservedForPlatform},
		{key: "agent_config_file", value: "x", create: reservedForPlatform, update: reservedForPlatform},
		{key: "AGENT_URLS", value: "x"},
		{key: "API_SERVER_KEY", value: long, create: reservedForAgent, update: reservedForAgent},
		{key: "MY_TOKEN", value: "", create: secretIsEmpty, update: isSecret},
		{key: "MY_TOKEN", value: long, create: tooLong, update: isSecret},
		{key: "MODE", value: long, create: tooLong, update: tooLong},
		{key: "MODE", value: "", create: "", update: ""},
		{key: "MODE", value: "http://ada:hunter2@host", create: "", update: valueIsSecret},
		{key: "PGPASSWORD", value: "http://ada:hunter2@host", create: "", update: isSecret},
	} {
		body := map[string]any{"env_vars": map[string]any{c.key: c.value}}
		for _, route := range []struct {
			name  string
			check func(map[string]any) []fault.Violation
			want  string
		}{
			{name: "create", check: agent.CreateViolations, want: c.create},
			{name: "update", check: agent.UpdateViolations, want: c.update},
		} {
			t.Run(fmt.Sprintf("%s %s with %d bytes", route.name, c.key, len(c.value.(string))), func(t *testing.T) {
				t.Parallel()
				var want []fault.Violation
				if route.want != "" {
					want = []fault.Violation{{
						Loc: []any{"body", "env_vars", c.key}, Type: "value_error", Msg: "Value error, " + route.want,
						Ctx: map[string]any{"error": route.want},
					}}
				}
				if diff := cmp.Diff(want, route.check(body)); diff != "" {
					t.Errorf("violations (-want +got):\n%s", diff)
				}
			})
		}
	}
}
