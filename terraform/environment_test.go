package terraform_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/cmd/config"
	"agents.example/controlplane/shared/function"
)

// secretsOf are the secrets of the control plane that a function needs, by environment variable.
func secretsOf(access function.Access, needs []function.Need) map[string]string {
	held := map[string]string{}
	if access.Authenticates() {
		// Terraform generates it: the version is known once it is written.
		held["API_KEY_PEPPER"] = "secret prod-api-key-pepper at (unknown)"
	}
	if slices.Contains(needs, function.WebhookSign) {
		held["WEBHOOK_SIGNING_KEY"] = "secret prod-webhook-signing-key at (unknown)"
	}
	if slices.Contains(needs, function.HandoffSign) {
		held["HANDOFF_SIGNING_KEY"] = "secret prod-handoff-signing-key at latest"
	}
	if slices.Contains(needs, function.Payments) {
		held["STRIPE_API_KEY"] = "secret prod-stripe-api-key at latest"
		held["STRIPE_WEBHOOK_SECRET"] = "secret prod-stripe-webhook-secret at latest"
	}
	return held
}

// TestSecrets_AreHeldByServicesThatNeedThem compares the secrets in the environment of each service, and those that its
// account may read, with the needs of its functions. Only services that authenticate callers need the pepper, which no
// worker does. Behind the load balancer, every service of routes needs the load balancer's secret.
func TestSecrets_AreHeldByServicesThatNeedThem(t *testing.T) {
	t.Parallel()
	everyTopologyWith(t, map[string]cty.Value{
		"app_url": cty.StringVal("https://app.example.com"),
		"provided_secrets": cty.SetVal([]cty.Value{
			cty.StringVal("HANDOFF_SIGNING_KEY"), cty.StringVal("STRIPE_API_KEY"),
			cty.StringVal("STRIPE_WEBHOOK_SECRET"),
		}),
	}, func(t *testing.T, m *module) {
		needed := map[string]map[string]string{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			needed[r.Name] = secretsOf(r.Access, r.Needs)
			if m.variable(t, "domain").AsString() != "" {
				needed[r.Name]["EDGE_SECRETS"] = "secret prod-edge-secrets at (unknown)"
			}
		}
		for _, w := range functions.Workers(functions.Dependencies{}) {
			needed[w.Name] = secretsOf(function.Public, w.Needs)
		}
		want, set, readers := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for service, s := range m.local(t, "services").AsValueMap() {
			for _, member := range texts(t, s.GetAttr("members")) {
				for name, secret := range needed[member] {
					want[service+": "+name+" is "+secret] = true
				}
			}
		}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			service := strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)
			for name, value := range variables(t, s) {
				if strings.HasPrefix(value, "secret ") {
					set[service+": "+name+" is "+value] = true
					id := strings.Fields(value)[1]
					readers[`google_service_account.service["`+service+`"].member reads `+id] = true
				}
			}
		}
		if diff := cmp.Diff(want, set); diff != "" {
			t.Errorf("secrets of services (-want +got):\n%s", diff)
		}
		granted := map[string]bool{}
		for _, g := range m.resources(t, "google_secret_manager_secret_iam_member") {
			granted[text(t, g, "member")+" reads "+text(t, g, "secret_id")] = true
			if role := text(t, g, "role"); role != "roles/secretmanager.secretAccessor" {
				t.Errorf("%s has %s on %s", text(t, g, "member"), role, text(t, g, "secret_id"))
			}
		}
		if diff := cmp.Diff(readers, granted); diff != "" {
			t.Errorf("accounts that may read secrets (-want +got):\n%s", diff)
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
		"AGENT_ROUTER_ADDRESS", "PUSH_ISSUER", "STRIPE_URL", "WEBHOOK_ALLOW_LOOPBACK",
	}
	everyTopology(t, func(t *testing.T, m *module) {
		secret := m.local(t, "secret_environments").AsValueMap()
		settable := m.local(t, "common_environment").AsValueMap()
		maps.Copy(settable, m.local(t, "worker_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "optional_secrets").AsValueMap())
		maps.Copy(settable, m.local(t, "payments_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "console_environment").AsValueMap())
		maps.Copy(settable, m.local(t, "client_environment").AsValueMap())
		settable["API_KEY_PEPPER"] = m.local(t, "secrets").GetAttr("pepper")
		settable["WEBHOOK_SIGNING_KEY"] = m.local(t, "secrets").GetAttr("webhooks")
		settable["EDGE_SECRETS"] = m.local(t, "secrets").GetAttr("edge")
		for service, env := range m.local(t, "environments").AsValueMap() {
			binary := m.local(t, "services").GetAttr(service).GetAttr("binary").AsString()
			read := config.Variables(binary)
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
					t.Errorf("functions/cmd/config reads %s, which Terraform never sets: add it to "+
						"terraform/environment.tf", name)
				}
			}
		}
	})
}
