package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/sethvargo/go-envconfig"

	"agents.example/controlplane/functions/cmd/config"
)

// readers read the configuration of each role, by the variables of URLs that it has.
func readers(t *testing.T) map[string]func(envconfig.Lookuper) error {
	t.Helper()
	worker := func(l envconfig.Lookuper) error { _, err := config.Read[config.Worker](t.Context(), l); return err }
	accounts := func(l envconfig.Lookuper) error { _, err := config.Read[config.Accounts](t.Context(), l); return err }
	routes := func(l envconfig.Lookuper) error { _, err := config.Read[config.Routes](t.Context(), l); return err }
	return map[string]func(envconfig.Lookuper) error{
		"worker JWKS_URL": worker, "worker APP_URL": worker, "worker IDENTITY_AUTHORIZED_PARTIES": worker,
		"accounts APP_URL": accounts, "accounts IDENTITY_AUTHORIZED_PARTIES": accounts,
		"routes IDENTITY_AUTHORIZED_PARTIES": routes,
	}
}

// TestRead_KeepsAgentsOnASeparateSite compares domains by the Public Suffix List, as browsers do.
func TestRead_KeepsAgentsOnASeparateSite(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		agents, other string
		refused       bool
	}{
		"siblings":                       {agents: "agents.example.com", other: "https://app.example.com/x", refused: true},
		"agents on the parent":           {agents: "example.com", other: "https://app.example.com", refused: true},
		"agents on a child":              {agents: "a.app.example.com", other: "https://app.example.com", refused: true},
		"other case, port and final dot": {agents: "agents.Example.com", other: "https://APP.EXAMPLE.com.:8443", refused: true},
		"siblings below a long suffix":   {agents: "agents.example.co.uk", other: "https://app.example.co.uk", refused: true},
		"separate":                       {agents: "agents.example.net", other: "https://app.example.com"},
		"separate below a long suffix":   {agents: "agents.one.co.uk", other: "https://app.two.co.uk"},
		"separate below a city's suffix": {agents: "agents.one.kawasaki.jp", other: "https://app.two.kawasaki.jp"},
		"a listed suffix":                {agents: "github.io", other: "https://github.com"},
		"an address":                     {agents: "agents.localhost", other: "http://127.0.0.1:8080/docs"},
		"a laptop":                       {agents: "agents.localhost", other: "http://localhost:3000"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for reader, read := range readers(t) {
				env := maps.Clone(environment())
				env["AGENT_DOMAIN"] = row.agents
				env[strings.Fields(reader)[1]] = row.other
				err := read(envconfig.MapLookuper(env))
				if refused := err != nil; refused != row.refused {
					t.Errorf("%s: %v, want refused %t", reader, err, row.refused)
				}
				if err != nil && !strings.HasPrefix(err.Error(), "configuration: AGENT_DOMAIN is invalid: ") {
					t.Errorf("%s: %v, want an error that names AGENT_DOMAIN", reader, err)
				}
			}
		})
	}
}
