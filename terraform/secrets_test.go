package terraform_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// TestSecrets_AreProtected holds that the control plane's secrets cannot be deleted by accident, and that the
// generated pepper is not in the state.
func TestSecrets_AreProtected(t *testing.T) {
	t.Parallel()
	m := load(t, nil)
	secrets := m.resources(t, "google_secret_manager_secret")
	for _, id := range []string{
		"prod-api-key-pepper", "prod-handoff-signing-key", "prod-stripe-api-key", "prod-stripe-webhook-secret",
		"prod-edge-secrets",
	} {
		want := map[string]string{"secret_id": id, "deletion_protection": "true"}
		s := secrets[`this["`+id+`"]`]
		if diff := cmp.Diff(want, arguments(t, s, want)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
		if find(t, s, "replication.0.auto.0").IsNull() || !find(t, s, "replication.0.user_managed.0").IsNull() {
			t.Errorf("%s is not replicated automatically", id)
		}
	}
	want := map[string]string{
		"secret": `google_secret_manager_secret.this["prod-api-key-pepper"].id`, "secret_data": "(none)",
		"secret_data_wo": "(unknown)", "secret_data_wo_version": "1", "deletion_policy": "ABANDON",
	}
	versions := m.resources(t, "google_secret_manager_secret_version")
	if diff := cmp.Diff(want, arguments(t, versions[`generated["prod-api-key-pepper"]`], want)); diff != "" ||
		len(versions) != 3 {
		t.Errorf("%d versions, want three (-want +got):\n%s", len(versions), diff)
	}
}

// TestSecrets_StayInTheirRegions holds that secret_regions replaces automatic replication.
func TestSecrets_StayInTheirRegions(t *testing.T) {
	t.Parallel()
	want := []string{"europe-west1", "europe-west4"}
	m := load(t, map[string]cty.Value{"secret_regions": cty.TupleVal([]cty.Value{
		cty.StringVal(want[0]), cty.StringVal(want[1]),
	})})
	for address, s := range m.resources(t, "google_secret_manager_secret") {
		managed := find(t, s, "replication.0.user_managed.0")
		if got := blocks(t, managed, "replicas", "location"); !slices.Equal(got, want) {
			t.Errorf("%s is replicated to %q, want %q", address, got, want)
		}
		if !find(t, s, "replication.0.auto.0").IsNull() {
			t.Errorf("%s is replicated automatically, too", address)
		}
	}
}

// TestSecrets_AreReadByTheirHoldersOnly compares the environments of services with the rights on secrets: a service
// reads the secrets in its environment and no others.
func TestSecrets_AreReadByTheirHoldersOnly(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{"route", "group", "single"} {
		m := load(t, map[string]cty.Value{
			"topology": cty.StringVal(topology), "app_url": cty.StringVal("https://app.example.com"),
			"handoff_public_keys": cty.StringVal(`{"keys": []}`),
			"provided_secrets": cty.SetVal([]cty.Value{
				cty.StringVal("STRIPE_API_KEY"), cty.StringVal("STRIPE_WEBHOOK_SECRET"),
			}),
		})
		want, got := map[string]string{}, map[string]string{}
		for address, s := range m.resources(t, "google_cloud_run_v2_service") {
			account := "google_service_account.service" + strings.TrimPrefix(address, "this") + ".member"
			for name, value := range variables(t, s) {
				secret, is := strings.CutPrefix(value, "secret ")
				if !is {
					continue
				}
				id, version, _ := strings.Cut(secret, " at ")
				want[account+" reads "+id] = "roles/secretmanager.secretAccessor"
				generated := id == "prod-api-key-pepper" || id == "prod-webhook-signing-key"
				if generated == (version == "latest") {
					t.Errorf("%s reads %s at %s: want generated secrets at their version, and others at latest",
						address, name, version)
				}
			}
		}
		for _, member := range m.resources(t, "google_secret_manager_secret_iam_member") {
			got[text(t, member, "member")+" reads "+text(t, member, "secret_id")] = text(t, member, "role")
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("%s: readers of secrets (-want +got):\n%s", topology, diff)
		}
	}
}
