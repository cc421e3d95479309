package agent

import (
	"encoding/json"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// AmendSchema adds formats that the Go types can't express.
func (View) AmendSchema(s *jsonschema.Schema) {
	s.Properties["id"].Format = "uuid"
	for _, name := range []string{"dashboard_url", "api_url", "dashboard_handoff_url"} {
		s.Properties[name].Format = "uri"
	}
}

// AmendSchema allows the client's own keys next to those of the control plane.
func (ConfigView) AmendSchema(s *jsonschema.Schema) {
	s.Description = "The client's own keys and those that the control plane fills."
	s.AdditionalProperties = &jsonschema.Schema{}
}

// AmendSchema allows an empty stage: a failure at run time has none.
func (Failure) AmendSchema(s *jsonschema.Schema) {
	s.Properties["stage"] = &jsonschema.Schema{
		Type: "string", Description: "The provisioning stage that failed; empty if provisioning had finished.",
	}
}

// Example implements function.Exampler: an agent that runs.
func (View) Example() any {
	created := time.Date(2026, time.March, 2, 9, 30, 0, 0, time.UTC)
	config, _ := json.Marshal(map[string]any{"team": "support"}) // strings always encode
	a := New("0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90", "us-central1-1", Draft{
		Name: "Support Assistant", Plan: plan.Startup, Cloud: DefaultCloud, Region: DefaultRegion, Config: config,
		Env: []EnvVar{{Key: "LOG_LEVEL", Value: "info"}, {Key: "OPENAI_API_KEY", SecretVersion: 1}},
	}, created)
	now := created
	for _, name := range StageNames() {
		a.BeginStage(name, now)
		now = now.Add(3 * time.Second)
		a.EndStage(name, StageSucceeded, now)
	}
	a.BecameReady(now)
	a.CredentialVersion, a.Version = 1, "1"
	return a.Show(identity.Caller{OrganizationID: "org_1", Role: identity.RoleAdmin},
		Addresses{Domain: "agents.example.com", Scheme: "https"})
}

// Example implements function.Exampler: an agent whose provisioning has begun.
func (Created) Example() any {
	v, _ := View{}.Example().(View)
	draft := Draft{Name: v.Name, Plan: v.ResourcePlan, Cloud: v.Cloud, Region: v.Region}
	a := New(v.ID, "us-central1-1", draft, v.CreatedAt)
	a.Version = "1"
	created := a.Show(identity.Caller{}, Addresses{})
	created.Config.Own, created.EnvVars = v.Config.Own, v.EnvVars
	return Created{created}
}
