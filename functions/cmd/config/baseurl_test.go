package config_test

import (
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
)

func TestBaseURL_IsSafeToSendTokensTo(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]config.BaseURL{
		"": "", "https://api.example.com": "https://api.example.com", "https://api.example.com/": "https://api.example.com",
		"http://127.0.0.1:8080": "http://127.0.0.1:8080", "http://localhost:8080": "http://localhost:8080",
	} {
		env := environment()
		env["API_BASE_URL"] = value
		c, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
		if err != nil || c.APIBaseURL != want || c.CLIScopes != "openid profile email offline_access" {
			t.Errorf("%q: %q, scopes %q, %v; want %q", value, c.APIBaseURL, c.CLIScopes, err, want)
		}
	}
	for _, value := range []string{
		"http://api.example.com", "api.example.com", "https://", "https://a:b@api.example.com", "https://x/?q", "ftp://x",
	} {
		env := environment()
		env["API_BASE_URL"] = value
		_, err := config.Read[config.Routes](t.Context(), envconfig.MapLookuper(env))
		if err == nil || !strings.Contains(err.Error(), "API_BASE_URL") {
			t.Errorf("%q: %v, want an error that names API_BASE_URL", value, err)
		}
	}
}
