package config_test

import (
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
)

func TestRead_ChecksWhatAnAgentsContainerIsToldToDo(t *testing.T) {
	t.Parallel()
	const ports = "want a port from 1024 to 65535"
	for _, row := range []struct {
		key, value string
		want       string // "" means that the value is valid
	}{
		{key: "AGENT_PORT", value: "1024"},
		{key: "AGENT_PORT", value: "65535"},
		{key: "AGENT_PORT", value: "1023", want: ports},
		{key: "AGENT_PORT", value: "65536", want: ports},
		{key: "AGENT_PORT", value: "-3000", want: ports},
		{key: "AGENT_PORT", value: "http", want: ports},
		{key: "AGENT_PORT", value: "8080", want: "the front of every agent listens on 8080"},
		{key: "AGENT_PORT", value: "9091", want: "the front of every agent listens on 9091"},
		{key: "AGENT_API_PORT", value: "8642"},
		{key: "AGENT_API_PORT", value: "8080", want: "the front of every agent listens on 8080"},
		{key: "AGENT_API_PORT", value: "80", want: ports},
		{key: "AGENT_AUTH", value: "front"},
		{key: "AGENT_AUTH", value: "image"},
		{key: "AGENT_AUTH", value: "none", want: `want "front" or "image"`},
		{key: "AGENT_AUTH", value: "Front", want: `want "front" or "image"`},
		{key: "AGENT_HEALTH_PATH", value: "/healthz?full=1"},
		{key: "AGENT_HEALTH_PATH", value: "healthz", want: `want a path that begins with "/"`},
	} {
		env := environment()
		env[row.key] = row.value
		_, err := config.Read[config.Worker](t.Context(), envconfig.MapLookuper(env))
		if row.want == "" {
			if err != nil {
				t.Errorf("%s=%s: %v, want it accepted", row.key, row.value, err)
			}
			continue
		}
		if want := "configuration: " + row.key + " is invalid: " + row.want; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s=%s: error %v, want it to begin with %q", row.key, row.value, err, want)
		}
	}
}
