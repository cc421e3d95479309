package config_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/image"
)

// TestMain discards the warnings about former names.
func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// everything has the variables of all roles.
type everything struct {
	config.Worker
	Routes struct {
		config.Peppers
		Edge config.EdgeSecrets `env:"EDGE_SECRETS"`
	}
}

func environment() map[string]string {
	return map[string]string{
		"GOOGLE_CLOUD_PROJECT": "p", "ENVIRONMENT": "test", "IDENTITY_ISSUER": "https://issuer.example",
		"AGENT_DOMAIN":   "agents.example.com",
		"API_KEY_PEPPER": "c2VjcmV0LXBlcHBlci1vZi0zMi1ieXRlcy1hdC1sZWFzdC4=",
		"CELLS":          `[{"name": "c1", "region": "us-central1", "endpoint": "https://c1.example"}]`,
		"PLATFORM_IMAGE": "image@sha256:0", "PUSH_SERVICE_ACCOUNT": "push@example",
		"PUSH_AUDIENCE": "https://api.example",
	}
}

func TestRead_Defaults(t *testing.T) {
	t.Parallel()
	c, err := config.Read[config.Worker](t.Context(), envconfig.MapLookuper(environment()))
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ got, want any }{
		"Database":            {got: c.Database, want: "(default)"},
		"Port":                {got: c.Port, want: "8080"},
		"AgentScheme":         {got: c.AgentScheme, want: "https"},
		"RateLimitFactor":     {got: c.RateLimitFactor, want: 1},
		"SecretManagerWrites": {got: c.SecretManagerWrites, want: config.SecretManagerWrites(600)},
		"AgentImage":          {got: c.AgentImage, want: ""},
		"AgentPort":           {got: c.AgentPort, want: config.AgentPort(3000)},
		"AgentAPIPort":        {got: c.AgentAPIPort, want: config.AgentPort(0)},
		"AgentHealthPath":     {got: c.AgentHealthPath, want: config.HealthPath("")},
		"AgentAuth":           {got: c.AgentAuth, want: config.AgentAuth("front")},
		"AgentRegistries":     {got: len(c.AgentRegistries), want: 0},
		"RouterNamespace":     {got: c.RouterNamespace, want: "agent-gateway"},
		"PushIssuer":          {got: c.PushIssuer, want: "https://accounts.google.com"},
		"number of cells":     {got: len(c.Cells), want: 1},
		"Local":               {got: c.Local, want: config.Local{}},
	} {
		if row.got != row.want {
			t.Errorf("%s = %v, want %v", name, row.got, row.want)
		}
	}
}

func TestPepper_IsRedacted(t *testing.T) {
	t.Parallel()
	c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(environment()))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(c.Pepper); !strings.HasPrefix(got, "secret") {
		t.Errorf("the pepper is %q, want that of the environment", got)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c.Pepper), "secret") {
		t.Error("the printed configuration contains the pepper")
	}
}

func TestConsole_AsksForTheUsualScopes(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"": "openid profile email offline_access", "openid": "openid",
	} {
		env := environment()
		if given != "" {
			env["CONSOLE_SCOPES"] = given
		}
		c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
		if err != nil || c.ConsoleScopes != want || c.ConsoleClientID != "" {
			t.Errorf("scopes %q: %q with client %q, %v; want %q without a client", given, c.ConsoleScopes,
				c.ConsoleClientID, err, want)
		}
	}
}

func TestSupportURL_RunsNoScript(t *testing.T) {
	t.Parallel()
	for given, valid := range map[string]bool{
		"": true, "https://support.example.com/new?": true, "mailto:support@example.com": true,
		"javascript:alert(1)": false, "http://support.example.com": false, "https:support": false,
		"support@example.com": false, "mailto:nowhere": false, "mailto:a@example.com?bcc=b@example.com": false,
		"https://user:word@support.example.com": false,
	} {
		env := environment()
		env["SUPPORT_URL"] = given
		c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
		if (err == nil) != valid || valid && string(c.SupportURL) != given {
			t.Errorf("%q: %q, %v; want valid: %t", given, c.SupportURL, err, valid)
		}
	}
}

// servesRoutes says of each binary whether it serves routes.
func servesRoutes() map[string]bool {
	return map[string]bool{
		"api": true, "accounts": true, "exec": true, "worker": false, "router": false, "notifier": false,
	}
}

// TestPepper_IsNotReadByWorkers compares the binaries: only those that serve routes read the pepper, and none needs it
// to read its configuration.
func TestPepper_IsNotReadByWorkers(t *testing.T) {
	t.Parallel()
	for binary, want := range servesRoutes() {
		for _, name := range []string{"API_KEY_PEPPER", "API_KEY_PEPPER_NEXT", "API_KEY_PEPPER_PREVIOUS"} {
			if required, got := config.Variables(binary)[name]; got != want || required {
				t.Errorf("%s reads %s: %t, required: %t; want %t and not required", binary, name, got, required, want)
			}
		}
	}
}

// TestEdgeSecrets_AreReadByRoutesOnly also holds that they are redacted.
func TestEdgeSecrets_AreReadByRoutesOnly(t *testing.T) {
	t.Parallel()
	for binary, want := range servesRoutes() {
		if required, got := config.Variables(binary)["EDGE_SECRETS"]; got != want || required {
			t.Errorf("%s reads the edge's secrets: %t, required: %t; want %t and not required", binary, got, required,
				want)
		}
	}
	present, next, previous := strings.Repeat("canary-1", 4), strings.Repeat("canary-2", 4),
		strings.Repeat("canary-3", 4)
	for value, want := range map[string]config.EdgeSecrets{
		"": nil, present: {present}, present + "," + next: {present, next},
		present + "," + next + "," + previous: {present, next, previous},
	} {
		env := environment()
		env["EDGE_SECRETS"] = value
		c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
		if err != nil || !slices.Equal(c.EdgeSecrets, want) {
			t.Errorf("%d characters: %d secrets, %v; want %d", len(value), len(c.EdgeSecrets), err, len(want))
		}
		if strings.Contains(fmt.Sprintf("%v %+v %#v %s", c, c, c, c.EdgeSecrets), "canary") {
			t.Error("the printed configuration contains a secret")
		}
	}
}

func TestRead_NamesTheVariableOfABadValue(t *testing.T) {
	t.Parallel()
	const cells = "CELLS is invalid: "
	for name, c := range map[string]struct{ key, value, want string }{
		"no project":     {key: "GOOGLE_CLOUD_PROJECT", value: "", want: "GOOGLE_CLOUD_PROJECT is required"},
		"no environment": {key: "ENVIRONMENT", value: "", want: "ENVIRONMENT is required"},
		"no issuer":      {key: "IDENTITY_ISSUER", value: "", want: "IDENTITY_ISSUER is required"},
		"no image":       {key: "PLATFORM_IMAGE", value: "", want: "PLATFORM_IMAGE is required"},
		"short pepper": {
			key: "API_KEY_PEPPER", value: "c2hvcnQ=",
			want: "API_KEY_PEPPER is invalid: want at least 32 bytes in standard base64",
		},
		"pepper is not base64": {
			key: "API_KEY_PEPPER", value: "secret!",
			want: "API_KEY_PEPPER is invalid: want at least 32 bytes in standard base64",
		},
		"short edge secret": {
			key: "EDGE_SECRETS", value: "secret!",
			want: "EDGE_SECRETS is invalid: want values of at least 32 characters",
		},
		"edge secret with a space": {
			key: "EDGE_SECRETS", value: "secret!" + strings.Repeat("x", 32) + ", ",
			want: "EDGE_SECRETS is invalid: want values of at least 32 characters",
		},
		"three edge secrets": {
			key: "EDGE_SECRETS", value: strings.Repeat("x", 32) + strings.Repeat(",secret!"+strings.Repeat("x", 32), 3),
			want: "EDGE_SECRETS is invalid: want at most 3 values",
		},
		"registry without its slash": {
			key: "AGENT_REGISTRIES", value: "a.example/,b.example/team",
			want: "AGENT_REGISTRIES is invalid: want beginnings with a host",
		},
		"registry without host": {
			key: "AGENT_REGISTRIES", value: "team/", want: "AGENT_REGISTRIES is invalid: want beginnings with a host",
		},
		"cells are not JSON": {key: "CELLS", value: "c1", want: cells + "want a JSON array"},
		"cell without region": {
			key: "CELLS", value: `[{"name": "c1", "endpoint": "https://c1"}]`,
			want: cells + "cell 0: name, region",
		},
		"cell with endpoint and kubeconfig": {
			key:   "CELLS",
			value: `[{"name": "c1", "region": "r", "endpoint": "https://c1", "kubeconfig": "f"}]`,
			want:  cells + "cell 0: name, region and either",
		},
		"smaller quota than Google's": {
			key: "SECRET_MANAGER_WRITES_PER_MINUTE", value: "599",
			want: "SECRET_MANAGER_WRITES_PER_MINUTE is invalid: want a whole number of at least 600",
		},
		"not a number": {key: "RATE_LIMIT_FACTOR", value: "many", want: "RATE_LIMIT_FACTOR is invalid: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := environment()
			env[c.key] = c.value
			if c.value == "" {
				delete(env, c.key)
			}
			_, err := config.Read[everything](t.Context(), envconfig.MapLookuper(env))
			if err == nil || !strings.HasPrefix(err.Error(), "configuration: "+c.want) {
				t.Errorf("error = %v, want it to be about the configuration: %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret!") {
				t.Errorf("error = %v, want one without the value", err)
			}
		})
	}
}

func TestSecret_IsRedacted(t *testing.T) {
	t.Parallel()
	env := environment()
	env["STRIPE_API_KEY"], env["STRIPE_WEBHOOK_SECRET"] = "sk_secret", "whsec_secret"
	c, err := config.Read[config.Accounts](t.Context(), envconfig.MapLookuper(env))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.StripeKey.Reveal(); got != "sk_secret" {
		t.Errorf("Reveal = %q, want sk_secret", got)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.StripeKey, c.StripeWebhookSecret), "_secret") {
		t.Error("the printed configuration contains a secret")
	}
}

func TestBuiltInImages_HaveEverySetting(t *testing.T) {
	t.Parallel()
	env := environment()
	maps.Copy(env, map[string]string{
		"AGENT_IMAGE": "agent@sha256:0", "AGENT_PORT": "4000", "AGENT_API_PORT": "4001", "AGENT_AUTH": "image",
		"AGENT_HEALTH_PATH": "/healthz", "AGENT_REGISTRIES": "a.example/,b.example:5000/team/",
		"CELLS": `[{"name": "c1", "region": "r", "endpoint": "https://c1.example", "image": "own@sha256:0"},` +
			`{"name": "c2", "region": "r", "endpoint": "https://c2.example"}]`,
	})
	c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
	if err != nil {
		t.Fatal(err)
	}
	want := image.BuiltIn{
		Platform: "image@sha256:0", Agent: "agent@sha256:0", Cells: map[string]string{"c1": "own@sha256:0"},
		Runtime:    image.Runtime{Port: 4000, APIPort: 4001, HealthPath: "/healthz", Auth: "image"},
		Registries: []string{"a.example/", "b.example:5000/team/"},
	}
	if diff := cmp.Diff(want, c.BuiltInImages()); diff != "" {
		t.Errorf("the images of the settings (-want +got):\n%s", diff)
	}
}

func TestReadyFile_HasTheOnlyCell(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		facts string
		want  config.Cells
	}{
		"a local cloud": {
			facts: `{"project_id": "p", "kubeconfig": "/tmp/k"}`,
			want:  config.Cells{{Name: "local", Region: "local", Kubeconfig: "/tmp/k"}},
		},
		"a cloud without a cluster": {facts: `{"project_id": "p"}`},
	} {
		file := filepath.Join(t.TempDir(), "ready.json")
		if err := os.WriteFile(file, []byte(row.facts), 0o600); err != nil {
			t.Fatal(err)
		}
		local, err := config.ReadyFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := config.Read[config.Operator](t.Context(), local)
		if err != nil || !slices.Equal(c.Cells, row.want) {
			t.Errorf("%s: cells = %v, %v, want %v", name, c.Cells, err, row.want)
		}
	}
}
