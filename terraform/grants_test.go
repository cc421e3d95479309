package terraform_test

import (
	"maps"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// The conditions of grants, as the table below names them.
const (
	inDatabase     = `resource.name == "projects/my-project/databases/agents-prod"`
	inAgentSecrets = `resource.name.startsWith("projects/123456789012/secrets/prod-agent-")`
	inCredentials  = inAgentSecrets +
		` && resource.name.extract("/secrets/{name}/versions/").endsWith("-credentials")` +
		` && !resource.name.extract("/secrets/{name}/versions/").endsWith("-env-credentials")`
)

// custom is the name of a custom role.
func custom(id string) string { return "projects/my-project/roles/prod_" + id }

// conditions maps roles to the conditions of their grants on the project. "cells" is a grant on the project of the
// cells, and "nudges" one on the topic of nudges.
type conditions map[string]string

// TestGrants_AreTheNarrowest has the roles of every need once more, for whoever changes one.
func TestGrants_AreTheNarrowest(t *testing.T) {
	t.Parallel()
	want := map[string]conditions{
		"firestore":      {"roles/datastore.user": inDatabase},
		"firestore_read": {"roles/datastore.viewer": inDatabase},
		"publish":        {"roles/pubsub.publisher": "nudges"},
		"secret_add":     {custom("secret_creator"): "", custom("secret_writer"): inAgentSecrets},
		"secret_read":    {"roles/secretmanager.secretAccessor": inCredentials},
		"secret_manage": {
			custom("secret_creator"): "", custom("secret_lister"): "", custom("secret_manager"): inAgentSecrets,
		},
		"secret_collect":  {custom("secret_lister"): "", custom("secret_collector"): inAgentSecrets},
		"cluster_apply":   {custom("cluster_caller"): "cells"},
		"cluster_look":    {custom("cluster_caller"): "cells"},
		"cluster_collect": {custom("cluster_caller"): "cells"},
		"pod_logs":        {custom("cluster_caller"): "cells"},
		"monitoring":      {custom("metric_reader"): "cells"},
		"members":         {},
		"handoff_sign":    {}, "payments": {}, "gateway_access": {}, "webhook_sign": {}, "webhook_send": {},
	}
	for issuer, members := range map[string]conditions{
		"https://issuer.example":                             {},
		"https://securetoken.google.com/my-project":          {custom("member_admin"): ""},
		"https://securetoken.google.com/my-project-of-users": {},
	} {
		want := maps.Clone(want)
		want["members"] = members
		m := load(t, map[string]cty.Value{"identity_issuer": cty.StringVal(issuer)})
		places, got := m.local(t, "places").AsValueMap(), map[string]conditions{}
		for need, grant := range m.local(t, "grants").AsValueMap() {
			got[need] = conditions{}
			for role, place := range grant.GetAttr("roles").AsValueMap() {
				p := places[place.AsString()]
				got[need][role] = p.GetAttr("where").AsString()
				if on := p.GetAttr("on").AsString(); on != "project" {
					got[need][role] += on
				}
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("grants with the issuer %s (-want +got):\n%s", issuer, diff)
		}
	}
}

// TestRoles_NoneAdministers refuses basic roles and roles that administer, in every resource that grants one.
func TestRoles_NoneAdministers(t *testing.T) {
	t.Parallel()
	tooWide := regexp.MustCompile(`^roles/(.*[aA]dmin|(.*\.)?(owner|editor)|viewer)$`)
	everyTopology(t, func(t *testing.T, m *module) {
		granted := 0
		for _, typ := range m.Types() {
			for address, r := range m.resources(t, typ) {
				if !r.Type().HasAttribute("role") {
					continue
				}
				granted++
				if role := text(t, r, "role"); tooWide.MatchString(role) {
					t.Errorf("%s.%s grants %s", typ, address, role)
				}
			}
		}
		if granted < 20 {
			t.Errorf("found %d grants only: correct this test", granted)
		}
	})
}
