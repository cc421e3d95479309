package terraform_test

import (
	"slices"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// TestAgentDomain_IsASeparateSite refuses agents next to the API or the web app.
func TestAgentDomain_IsASeparateSite(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		agents, api, app, party string
		refused                 bool
	}{
		"separate": {
			agents: "agents.example.net", api: "api.example.com", app: "https://app.example.com",
			party: "https://app.example.com",
		},
		"no domain":                    {agents: "agents.example.net"},
		"the API's domain":             {agents: "api.example.com", api: "api.example.com", refused: true},
		"next to the API":              {agents: "agents.example.com", api: "api.example.com", refused: true},
		"the parent of the API":        {agents: "example.com", api: "api.example.com", refused: true},
		"below the API":                {agents: "agents.api.example.com", api: "api.example.com", refused: true},
		"next to the web app":          {agents: "agents.example.com", app: "https://app.example.com/billing", refused: true},
		"next to a page with a port":   {agents: "agents.example.com", party: "https://APP.example.com:8443", refused: true},
		"a page of a laptop":           {agents: "agents.example.com", party: "http://localhost:3000"},
		"next to the API, long suffix": {agents: "agents.one.co.uk", api: "api.one.co.uk", refused: true},
		"separate, long suffix":        {agents: "agents.one.co.uk", api: "api.two.co.uk"},
		"separate, short suffix":       {agents: "agents.one.de", api: "api.two.de"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := map[string]cty.Value{
				"agent_domain": cty.StringVal(row.agents), "domain": cty.StringVal(row.api),
				"app_url": cty.StringVal(row.app),
			}
			if row.party != "" {
				given["identity_authorized_parties"] = cty.TupleVal([]cty.Value{cty.StringVal(row.party)})
			}
			invalid, err := load(t, given).Invalid()
			if err != nil || slices.Contains(invalid, "agent_domain") != row.refused {
				t.Errorf("refused %q, %v; want agent_domain to be refused: %t", invalid, err, row.refused)
			}
		})
	}
}
