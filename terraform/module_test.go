package terraform_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"
)

// cells is a value of the variable cells.
func cells(names ...string) cty.Value {
	all := map[string]cty.Value{}
	for i, name := range names {
		all[name] = cty.ObjectVal(map[string]cty.Value{
			"number": cty.NumberIntVal(int64(i + 1)), "region": cty.StringVal("us-central1"),
		})
	}
	return cty.ObjectVal(all)
}

// everything sets all variables that a default leaves empty.
func everything() map[string]cty.Value {
	text := cty.StringVal
	return map[string]cty.Value{
		"identity_issuer": text("https://securetoken.google.com/my-project"), "app_url": text("https://app.example.com"),
		"identity_authorized_parties": cty.TupleVal([]cty.Value{text("https://app.example.com")}),
		"handoff_public_keys":         text(`{"keys": []}`),
		"console_client_id":           text("console-1"), "console_scopes": text("openid email"),
		"cli_client_id": text("agentctl-1"), "cli_scopes": text("openid offline_access"),
		"provided_secrets": cty.TupleVal([]cty.Value{text("STRIPE_API_KEY"), text("STRIPE_WEBHOOK_SECRET")}),
		"database":         text("agents-prod-2"), "firestore_location": text("nam5"),
		"secret_regions":      cty.TupleVal([]cty.Value{text("us-central1"), text("us-east1")}),
		"alert_emails":        cty.TupleVal([]cty.Value{text("operator@example.com")}),
		"billing_account":     text("012345-6789AB-CDEF01"),
		"agent_storage_class": text("premium-rwo"), "agent_api_port": cty.NumberIntVal(3001),
		"agent_health_path": text("/healthz"), "deletion_protection": cty.False, "trace_ratio": cty.Zero,
		"cloud_armor": cty.True,
		"maintenance_exclusions": cty.ObjectVal(map[string]cty.Value{"launch": cty.ObjectVal(map[string]cty.Value{
			"start_time": text("2026-12-01T00:00:00Z"), "end_time": text("2026-12-08T00:00:00Z"),
			"scope": text("NO_UPGRADES"),
		})}),
		"edge_secret_version": cty.NumberIntVal(2),
		"scaling": cty.ObjectVal(map[string]cty.Value{
			"routes": cty.ObjectVal(map[string]cty.Value{"min_instances": cty.NumberIntVal(2)}),
		}),
		"cells": cty.ObjectVal(map[string]cty.Value{
			"a1": cty.ObjectVal(map[string]cty.Value{
				"number": cty.NumberIntVal(1), "region": text("us-central1"), "closed": cty.True,
			}),
			"b1": cty.ObjectVal(map[string]cty.Value{
				"number": cty.NumberIntVal(63), "region": text("europe-west4"),
				"image": text("agent@sha256:" + strings.Repeat("1", 64)),
			}),
		}),
	}
}

// TestModule_EvaluatesInEveryTopology evaluates every resource and output, with one cell, with two, and with every
// setting.
func TestModule_EvaluatesInEveryTopology(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]map[string]cty.Value{
		"one cell": nil, "two cells": {"cells": cells("a1", "b1")}, "every setting": everything(),
		"a project of the cells": separateCells(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everyTopologyWith(t, settings, checkModule)
		})
	}
}

// checkModule holds that the module can be planned: every resource and output has a value, and no rule refuses one.
func checkModule(t *testing.T, m *module) {
	t.Helper()
	for _, typ := range m.Types() {
		m.resources(t, typ)
	}
	for address := range m.Blocks() {
		if name, ok := strings.CutPrefix(address, "output."); ok {
			if _, err := m.Output(name); err != nil {
				t.Error(err)
			}
		}
	}
	if invalid, err := m.Invalid(); err != nil || len(invalid) > 0 {
		t.Errorf("variables %q are refused (%v)", invalid, err)
	}
	if refused, err := m.Refused(); err != nil || len(refused) > 0 {
		t.Errorf("resources %q are refused (%v)", refused, err)
	}
}

// TestModule_TakesEverySetting holds that everything sets each variable that has a default, except those below.
func TestModule_TakesEverySetting(t *testing.T) {
	t.Parallel()
	set := required()
	maps.Copy(set, everything())
	for _, name := range []string{
		"region", "environment", "topology", "domain", "rate_limit_factor", "debug", "warm_instances", "monthly_budget",
		"secret_manager_writes_per_minute", "agent_port", "agent_auth", "warm_agents", "warm_plan",
		"maintenance_window", "backup_schedule",
		"backup_retention_days", "cells_project", "cells_project_number",
	} {
		set[name] = cty.True
	}
	for address, b := range load(t, nil).Blocks() {
		name, ok := strings.CutPrefix(address, "var.")
		if _, given := set[name]; ok && !given && b.Body.Attributes["default"] != nil {
			t.Errorf("everything does not set %s: add a value that differs from its default, or name it here", address)
		}
	}
}
