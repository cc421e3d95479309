package terraform_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// keySettings are the variables of a step in which one version of a key replaces another.
func keySettings(pepper, webhooks int64, next, previous []string) map[string]cty.Value {
	set := func(names []string) cty.Value {
		all := []cty.Value{}
		for _, name := range names {
			all = append(all, cty.StringVal(name))
		}
		return cty.TupleVal(all)
	}
	return map[string]cty.Value{
		"key_versions": cty.ObjectVal(map[string]cty.Value{
			"pepper": cty.NumberIntVal(pepper), "webhooks": cty.NumberIntVal(webhooks),
		}),
		"next_keys": set(next), "previous_keys": set(previous),
	}
}

// keyVersions are the versions of the generated keys, by address, with their arguments.
func keyVersions(t *testing.T, m *module) map[string]map[string]string {
	t.Helper()
	versions := m.resources(t, "google_secret_manager_secret_version")
	maps.DeleteFunc(versions, func(address string, _ cty.Value) bool {
		return !strings.HasPrefix(address, "generated[")
	})
	all := map[string]map[string]string{}
	for address, v := range versions {
		all[address] = arguments(t, v, map[string]string{
			"secret": "", "secret_data": "", "secret_data_wo": "", "secret_data_wo_version": "", "deletion_policy": "",
		})
	}
	return all
}

// TestKeys_ChangeInSteps holds which versions exist and which of them the services have, at each step of a change of
// the pepper. A version that exists is never made again or destroyed, and the key of webhooks' secrets stays as it is.
func TestKeys_ChangeInSteps(t *testing.T) {
	t.Parallel()
	const one, two = "prod-api-key-pepper", "prod-api-key-pepper 2"
	const hooks = "prod-webhook-signing-key"
	pepper := []string{"pepper"}
	var before map[string]map[string]string
	for _, step := range []struct {
		name         string
		settings     map[string]cty.Value
		wantVersions []string
		wantPeppers  map[string]string
	}{
		{
			name: "at first", wantVersions: []string{one, hooks}, wantPeppers: map[string]string{"API_KEY_PEPPER": one},
		},
		{
			name: "accept the next one", settings: keySettings(1, 1, pepper, nil),
			wantVersions: []string{one, two, hooks},
			wantPeppers:  map[string]string{"API_KEY_PEPPER": one, "API_KEY_PEPPER_NEXT": two},
		},
		{
			name: "use it", settings: keySettings(2, 1, nil, pepper), wantVersions: []string{one, two, hooks},
			wantPeppers: map[string]string{"API_KEY_PEPPER": two, "API_KEY_PEPPER_PREVIOUS": one},
		},
		{
			name: "drop the former one", settings: keySettings(2, 1, nil, nil), wantVersions: []string{one, two, hooks},
			wantPeppers: map[string]string{"API_KEY_PEPPER": two},
		},
	} {
		m := load(t, step.settings)
		got := keyVersions(t, m)
		var want []string
		for _, version := range step.wantVersions {
			want = append(want, `generated["`+version+`"]`)
		}
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%s: versions (-want +got):\n%s", step.name, diff)
		}
		for address, v := range before {
			if diff := cmp.Diff(v, got[address]); diff != "" {
				t.Errorf("%s: %s changes (-before +now):\n%s", step.name, address, diff)
			}
		}
		before = got
		keys := m.local(t, "key_environments")
		set := map[string]string{}
		for name, version := range keys.GetAttr("pepper").AsValueMap() {
			set[name] = version.AsString()
		}
		if diff := cmp.Diff(step.wantPeppers, set); diff != "" {
			t.Errorf("%s: peppers of services (-want +got):\n%s", step.name, diff)
		}
		if got := text(t, keys, "webhooks.WEBHOOK_SIGNING_KEY"); got != hooks {
			t.Errorf("%s: the key of webhooks' secrets is %s, want %s", step.name, got, hooks)
		}
	}
	if v := before[`generated["`+two+`"]`]; v["secret_data_wo_version"] != "2" || v["secret_data"] != "(none)" ||
		v["secret_data_wo"] != "(unknown)" || v["deletion_policy"] != "ABANDON" {
		t.Errorf("the second version is %v, want a random value that is not stored and never destroyed", v)
	}
}

func TestKeys_RefuseStepsThatLockOut(t *testing.T) {
	t.Parallel()
	pepper, hooks, edge := []string{"pepper"}, []string{"webhooks"}, []string{"edge"}
	refusedSecrets := []string{"provided_secrets"}
	provided := func(names ...string) map[string]cty.Value {
		var secrets []cty.Value
		for _, name := range names {
			secrets = append(secrets, cty.StringVal(name))
		}
		return map[string]cty.Value{
			"provided_secrets": cty.TupleVal(secrets), "app_url": cty.StringVal("https://app.example.com/billing"),
		}
	}
	for name, row := range map[string]struct {
		settings map[string]cty.Value
		refused  []string
	}{
		"two keys at different steps": {settings: keySettings(2, 1, hooks, pepper)},
		"both steps of one key":       {settings: keySettings(2, 1, pepper, pepper), refused: []string{"next_keys"}},
		"a key before the first one":  {settings: keySettings(1, 2, nil, pepper), refused: []string{"previous_keys"}},
		"an unknown previous key":     {settings: keySettings(2, 2, nil, edge), refused: []string{"previous_keys"}},
		"an unknown next key":         {settings: keySettings(2, 2, edge, nil), refused: []string{"next_keys"}},
		"a version before the first":  {settings: keySettings(0, 1, nil, nil), refused: []string{"key_versions"}},
		"public keys without a secret": {
			settings: map[string]cty.Value{"handoff_public_keys": cty.StringVal(`{"keys": []}`)},
			refused:  []string{"provided_secrets"},
		},
		"Stripe's key without the secret of its events": {
			settings: provided("STRIPE_API_KEY"), refused: refusedSecrets,
		},
		"the secret of Stripe's events without its key": {
			settings: provided("STRIPE_WEBHOOK_SECRET"), refused: refusedSecrets,
		},
		"both secrets of Stripe": {settings: provided("STRIPE_API_KEY", "STRIPE_WEBHOOK_SECRET")},
		"a signing key without public ones": {
			settings: map[string]cty.Value{"provided_secrets": cty.TupleVal([]cty.Value{
				cty.StringVal("HANDOFF_SIGNING_KEY"),
			})},
			refused: []string{"provided_secrets"},
		},
	} {
		got, err := load(t, row.settings).Invalid()
		if err != nil || !slices.Equal(got, row.refused) {
			t.Errorf("%s: refused %q, %v; want %q", name, got, err, row.refused)
		}
	}
}

// TestSecrets_AreReadOnceTheyAreProvided holds that no service reads an optional secret that is not in
// provided_secrets: it has no version, and Cloud Run starts no service that reads one without.
func TestSecrets_AreReadOnceTheyAreProvided(t *testing.T) {
	t.Parallel()
	for address, s := range load(t, map[string]cty.Value{
		"handoff_public_keys": cty.StringVal(`{"keys": []}`),
	}).resources(t, "google_cloud_run_v2_service") {
		for name, value := range variables(t, s) {
			if name == "HANDOFF_SIGNING_KEY" || name == "STRIPE_API_KEY" || name == "STRIPE_WEBHOOK_SECRET" {
				t.Errorf("%s reads %s: %s", address, name, value)
			}
		}
	}
}
