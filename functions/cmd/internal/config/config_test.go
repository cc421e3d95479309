package config_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/internal/config"
)

func environment() map[string]string {
	return map[string]string{
		"GOOGLE_CLOUD_PROJECT": "p", "IDENTITY_ISSUER": "https://issuer.example", "AGENT_DOMAIN": "agents.example.com",
		"API_KEY_PEPPER": "c2VjcmV0LXBlcHBlci1vZi0zMi1ieXRlcy1hdC1sZWFzdC4=",
		"CELLS":          `[{"name": "c1", "region": "us-central1", "endpoint": "https://c1.example"}]`,
		"AGENT_IMAGE":    "image@sha256:0", "PUSH_SERVICE_ACCOUNT": "push@example",
		"PUSH_AUDIENCE": "https://api.example",
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	c, err := config.Read[config.Worker](t.Context(), envconfig.MapLookuper(environment()))
	if err != nil {
		t.Fatal(err)
	}
	if c.Database != "(default)" || c.Port != "8080" || c.AgentScheme != "https" || c.RateLimitFactor != 1 ||
		c.WatchTimeout.Minutes() != 8 ||
		c.PushIssuer != "https://accounts.google.com" || len(c.Cells) != 1 || c.Local != (config.Local{}) {
		t.Errorf("%+v", c)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v", c, c, c.Pepper), "secret") {
		t.Error("the pepper prints")
	}
}

func TestBadValuesAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ key, value, said string }{
		"no project":        {key: "GOOGLE_CLOUD_PROJECT", value: "", said: "GOOGLE_CLOUD_PROJECT"},
		"no issuer":         {key: "IDENTITY_ISSUER", value: "", said: "IDENTITY_ISSUER"},
		"a short pepper":    {key: "API_KEY_PEPPER", value: "c2hvcnQ=", said: "at least 32 bytes"},
		"no base64":         {key: "API_KEY_PEPPER", value: "secret!", said: "base64"},
		"cells, no JSON":    {key: "CELLS", value: "c1", said: "JSON array"},
		"a cell, no region": {key: "CELLS", value: `[{"name": "c1", "endpoint": "https://c1"}]`, said: "region"},
		"a cell twice told": {key: "CELLS",
			value: `[{"name": "c1", "region": "r", "endpoint": "https://c1", "kubeconfig": "f"}]`, said: "either"},
		"no duration": {key: "WATCH_TIMEOUT", value: "long", said: "duration"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := maps.Clone(environment())
			env[c.key] = c.value
			if c.value == "" {
				delete(env, c.key)
			}
			_, err := config.Read[config.Worker](t.Context(), envconfig.MapLookuper(env))
			if err == nil || !strings.Contains(err.Error(), c.said) || strings.Contains(err.Error(), "secret!") {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	t.Parallel()
	env := environment()
	env["STRIPE_API_KEY"], env["STRIPE_WEBHOOK_SECRET"] = "sk_secret", "whsec_secret"
	c, err := config.Read[config.Accounts](t.Context(), envconfig.MapLookuper(env))
	if err != nil || c.StripeKey.Reveal() != "sk_secret" {
		t.Fatalf("%v", err)
	}
	if strings.Contains(fmt.Sprintf("%v %+v %#v %s %q", c, c, c, c.StripeKey, c.StripeWebhookSecret), "_secret") {
		t.Error("a secret prints")
	}
}

func TestRead_AcceptsFormerNames(t *testing.T) {
	t.Parallel()
	env := environment()
	env["WORKER_PATIENCE"] = "3m"
	c, err := config.Read[config.Worker](t.Context(), envconfig.MapLookuper(env))
	if err != nil || c.WatchTimeout != 3*time.Minute {
		t.Errorf("WORKER_PATIENCE=3m: WatchTimeout = %s, %v; want 3m", c.WatchTimeout, err)
	}
	env["WATCH_TIMEOUT"] = "5m"
	c, err = config.Read[config.Worker](t.Context(), envconfig.MapLookuper(env))
	if err != nil || c.WatchTimeout != 5*time.Minute {
		t.Errorf("WATCH_TIMEOUT=5m beside WORKER_PATIENCE=3m: WatchTimeout = %s, %v; want 5m", c.WatchTimeout, err)
	}
}
