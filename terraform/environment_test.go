package terraform_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/inprocess"
	"agents.example/controlplane/shared/function"
)

// TestPepper_IsHeldByServicesThatAuthenticate compares the services that have the pepper in their environment, and may
// read it, with those that serve a route that is not public.
func TestPepper_IsHeldByServicesThatAuthenticate(t *testing.T) {
	t.Parallel()
	const variable = "API_KEY_PEPPER"
	everyTopology(t, func(t *testing.T, m *module) {
		want, set, readers := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			if r.Access != function.Public {
				want[m.local(t, "service_of").GetAttr(r.Name).AsString()], want["routes"] = true, true
			}
		}
		for service, env := range m.local(t, "secret_environments").AsValueMap() {
			if _, ok := env.AsValueMap()[variable]; ok {
				set[service] = true
			}
		}
		pepper := m.local(t, "secrets").GetAttr("pepper").AsString()
		for _, r := range m.local(t, "secret_readers").AsValueMap() {
			if r.GetAttr("secret").AsString() == pepper {
				readers[r.GetAttr("service").AsString()] = true
			}
		}
		if diff := cmp.Diff(want, set); diff != "" {
			t.Errorf("services with the pepper (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, readers); diff != "" {
			t.Errorf("accounts that may read the pepper (-want +got):\n%s", diff)
		}
	})
}

// TestEnvironment_EqualsConfiguration compares the environment of each service with the variables that its binary
// reads.
func TestEnvironment_EqualsConfiguration(t *testing.T) {
	t.Parallel()
	// Variables that Cloud Run sets, and variables for networks other than Google's.
	notSet := []string{
		"PORT", "LISTEN_HOST", "AGENT_SCHEME", "AGENT_URL_PORT", "AGENT_RESOLVERS",
		"AGENT_ROUTER_ADDRESS", "PUSH_ISSUER", "STRIPE_URL",
	}
	everyTopology(t, func(t *testing.T, m *module) {
		secret := m.local(t, "secret_environments").AsValueMap()
		settable := m.local(t, "common_environment").AsValueMap()
		maps.Copy(settable, m.local(t, "worker_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "optional_secrets").AsValueMap())
		maps.Copy(settable, m.local(t, "routes_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "payments_environment").AsValueMap())
		settable["API_KEY_PEPPER"] = m.local(t, "secrets").GetAttr("pepper")
		for service, env := range m.local(t, "environments").AsValueMap() {
			binary := m.local(t, "services").GetAttr(service).GetAttr("binary").AsString()
			read := inprocess.Variables(binary)
			set := env.AsValueMap()
			maps.Copy(set, secret[service].AsValueMap())
			for name := range set {
				if _, is := read[name]; !is {
					t.Errorf("%s sets %s, which its binary does not read: remove it from terraform/environment.tf",
						service, name)
				}
				if slices.Contains(notSet, name) {
					t.Errorf("%s sets %s, which Terraform must not set", service, name)
				}
			}
			for name, required := range read {
				if _, ok := set[name]; required && !ok {
					t.Errorf("%s does not set %s, without which its binary does not start: add it to "+
						"terraform/environment.tf", service, name)
				}
			}
			for name := range read {
				_, can := settable[name]
				_, is := set[name]
				if !can && !is && !slices.Contains(notSet, name) && name != "FUNCTION_TARGET" {
					t.Errorf("functions/cmd/internal/config reads %s, which Terraform never sets: add it to "+
						"terraform/environment.tf", name)
				}
			}
		}
	})
}
