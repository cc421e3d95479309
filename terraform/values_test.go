package terraform_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zclconf/go-cty/cty"
)

// TestEnvironment_HasTheOperatorsSettings holds the values of every variable of a service of routes and of one of
// workers, with every setting. TestEnvironment_EqualsConfiguration compares the names with the code.
func TestEnvironment_HasTheOperatorsSettings(t *testing.T) {
	t.Parallel()
	given := everything()
	given["topology"], given["domain"] = cty.StringVal("group"), cty.StringVal("api.example.com")
	given["rate_limit_factor"], given["debug"] = cty.NumberIntVal(3), cty.True
	given["secret_manager_writes_per_minute"] = cty.NumberIntVal(1200)
	m := load(t, given)
	digest := "@sha256:" + strings.Repeat("0", 64)
	common := map[string]string{
		"GOOGLE_CLOUD_PROJECT": "my-project", "ENVIRONMENT": "prod", "FIRESTORE_DATABASE": "agents-prod-2",
		"NUDGE_TOPIC": "prod-agent-nudges", "SECRET_REGIONS": "us-central1,us-east1", "RATE_LIMIT_FACTOR": "3",
		"LOG_DEBUG": "true", "TRACE_RATIO": "0", "IDENTITY_ISSUER": "https://securetoken.google.com/my-project",
		"IDENTITY_AUTHORIZED_PARTIES": "https://app.example.com", "AGENT_DOMAIN": "agents.example.net",
		"SECRET_MANAGER_WRITES_PER_MINUTE": "1200",
		"HANDOFF_PUBLIC_KEYS":              `{"keys": []}`, "APP_URL": "https://app.example.com",
		"CELLS":                 "(unknown)", // it has the endpoints of clusters; see below
		"STRIPE_API_KEY":        "secret prod-stripe-api-key at latest",
		"STRIPE_WEBHOOK_SECRET": "secret prod-stripe-webhook-secret at latest",
		"WEBHOOK_SIGNING_KEY":   "secret prod-webhook-signing-key at (unknown)",
		"WEBHOOK_TOPIC":         "prod-webhook-nudges",
	}
	for service, own := range map[string]map[string]string{
		"routes": {
			"GOMEMLIMIT": "200MiB", "GOGC": "400", "EDGE_SECRETS": "secret prod-edge-secrets at (unknown)",
			"API_KEY_PEPPER":      "secret prod-api-key-pepper at (unknown)",
			"HANDOFF_SIGNING_KEY": "secret prod-handoff-signing-key at latest",
			"MAX_HELD_ANSWERS":    "40", "CONSOLE_CLIENT_ID": "console-1", "CONSOLE_SCOPES": "openid email",
			"API_BASE_URL": "https://api.example.com", "CLI_CLIENT_ID": "agentctl-1",
			"CLI_SCOPES": "openid offline_access",
		},
		"worker": {
			"PLATFORM_IMAGE": "image" + digest, "AGENT_IMAGE": "agent" + digest, "AGENT_PORT": "3000",
			"AGENT_API_PORT": "3001", "AGENT_HEALTH_PATH": "/healthz", "AGENT_AUTH": "front",
			"AGENT_STORAGE_CLASS": "premium-rwo", "JWKS_URL": "https://api.example.com/.well-known/jwks.json",
			"ROUTER_NAMESPACE": "agent-gateway", "MONITORING_PROJECT": "my-project",
			"PUSH_SERVICE_ACCOUNT": "prod-push@my-project.iam.gserviceaccount.com",
			"PUSH_AUDIENCE":        "https://prod-worker-123456789012.us-central1.run.app", "GOMEMLIMIT": "400MiB",
			"GOGC": "100",
		},
	} {
		want := maps.Clone(common)
		maps.Copy(want, own)
		got := variables(t, m.resources(t, "google_cloud_run_v2_service")[`this["`+service+`"]`])
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("environment of %s (-want +got):\n%s", service, diff)
		}
	}
}

// TestEnvironment_ListsCells holds the fields of CELLS that are known before the clusters exist.
func TestEnvironment_ListsCells(t *testing.T) {
	t.Parallel()
	want := []map[string]string{
		{
			"name": "a1", "region": "us-central1", "cluster": "prod-a1", "closed": "true", "image": "(none)",
			"endpoint": "(unknown)",
		},
		{
			"name": "b1", "region": "europe-west4", "cluster": "prod-b1", "closed": "(none)",
			"image": "agent@sha256:" + strings.Repeat("1", 64), "endpoint": "(unknown)",
		},
	}
	var got []map[string]string
	for _, cell := range load(t, everything()).local(t, "cells").AsValueSlice() {
		got = append(got, arguments(t, cell, want[0]))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cells (-want +got):\n%s", diff)
	}
}
