package terraform_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agents.example/controlplane/functions"
)

// reach says who can call a service: the networks that lead to it, whether Cloud Run lets every caller through, and
// the secret by which the service knows the load balancer.
type reach struct{ Ingress, Unchecked, Edge string }

// TestServices_AreReachedByTheirCallersOnly holds that the internet reaches routes in one way: through the load
// balancer or, without a domain, at the service of all routes. Pub/Sub reaches workers, and Cloud Run checks its token.
func TestServices_AreReachedByTheirCallersOnly(t *testing.T) {
	t.Parallel()
	const notSet, secret = "", "secret prod-edge-secrets at (unknown)"
	everyTopology(t, func(t *testing.T, m *module) {
		const balanced = "INGRESS_TRAFFIC_INTERNAL_LOAD_BALANCER"
		direct := m.variable(t, "domain").AsString() == ""
		want := map[string]reach{}
		for _, r := range functions.Routes(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(r.Name).AsString()
			want[service] = reach{Ingress: balanced, Unchecked: "true", Edge: secret}
			if direct {
				want[service] = reach{Ingress: balanced, Unchecked: "true", Edge: notSet}
			}
		}
		want["routes"] = reach{Ingress: balanced, Unchecked: "true", Edge: secret}
		if direct {
			want["routes"] = reach{Ingress: "INGRESS_TRAFFIC_ALL", Unchecked: "true", Edge: notSet}
		}
		for _, w := range functions.Workers(functions.Dependencies{}) {
			service := m.local(t, "service_of").GetAttr(w.Name).AsString()
			want[service] = reach{Ingress: "INGRESS_TRAFFIC_INTERNAL_ONLY", Unchecked: "false", Edge: notSet}
		}
		got := map[string]reach{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			got[strings.TrimSuffix(strings.TrimPrefix(address, `this["`), `"]`)] = reach{
				Ingress: text(t, s, "ingress"), Unchecked: text(t, s, "invoker_iam_disabled"),
				Edge: variables(t, s)["EDGE_SECRETS"],
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("who reaches each service (-want +got):\n%s", diff)
		}
	})
}

// TestServices_HaveSeparateAccounts holds that no two services share an account.
func TestServices_HaveSeparateAccounts(t *testing.T) {
	t.Parallel()
	everyTopology(t, func(t *testing.T, m *module) {
		accounts := map[string]string{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			account := text(t, s, "template.0.service_account")
			if other, taken := accounts[account]; taken {
				t.Errorf("%s and %s run as %s", address, other, account)
			}
			accounts[account] = address
		}
	})
}
