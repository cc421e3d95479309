package functions_test

import (
	"maps"
	"slices"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// routeRights returns who may call each route. It is written by hand: the other tests of access derive their
// expectations from the routes, and so would find no route that admits too many callers.
func routeRights() map[string]function.Access {
	rights := map[string]function.Access{}
	for access, names := range map[function.Access][]string{
		function.Public: {
			"GetConsole", "GetConsoleAsset",
			"GetHandoffKeys", "GetHealth", "GetHealthLive", "GetHealthLiveV1", "GetHealthReady",
			"GetHealthReadyV1", "GetHealthV1", "GetMCPProtectedResource", "GetOpenAPI", "GetPlayground",
			"GetPlaygroundAsset", "GetProtectedResource", "ReceiveStripeEvent",
		},
		function.Bearer: {
			"CallMCP",
		},
		function.User: {
			"GetMe",
		},
		function.Member: {
			"DiagnoseAgent", "GetAgent", "GetAgentMetrics", "GetCurrentOrganization", "GetDashboardReachability",
			"GetSubscription", "ListAgents", "ListEvents", "ListMembers", "ListPlans", "StreamEvents",
		},
		function.Admin: {
			"CreateAPIKey", "CreateAgent", "CreateCheckoutSession", "CreatePortalSession", "DeleteAgent",
			"DeleteSecret", "ExportAuditLog", "ExportAuditSeals", "GetAgentLogs", "GetDeletion",
			"GetSecretOperation", "ListAPIKeys",
			"ListAuditLog", "ListSecretOperations", "ListSecrets", "MigrateAgentSandbox", "PauseAgent",
			"PutSecrets", "ReconcileSecretOperation", "RemoveMember", "RestartAgent", "ResumeAgent",
			"RevealCredentials", "RevokeAPIKey", "RotateCredentials", "SetMember", "StartAgent", "StopAgent",
			"UpdateAgent", "VerifyAuditLog",
			"CreateWebhook", "DeleteWebhook", "GetWebhook", "ListWebhookDeliveries", "ListWebhooks",
			"RedeliverWebhookDelivery", "TestWebhook", "UpdateWebhook",
		},
	} {
		for _, name := range names {
			rights[name] = access
		}
	}
	return rights
}

// TestRoutes_AreForTheseCallers holds the access of every route, and the limits that single routes have.
func TestRoutes_AreForTheseCallers(t *testing.T) {
	t.Parallel()
	limits := map[string]ratelimit.Class{}
	want, got := routeRights(), map[string]function.Access{}
	wantLimits := map[string]ratelimit.Class{
		"RevealCredentials": ratelimit.Reveals, "CreateCheckoutSession": ratelimit.Payments,
		"CreatePortalSession": ratelimit.Payments, "SetMember": ratelimit.Members, "RemoveMember": ratelimit.Members,
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		got[r.Name] = r.Access
		if r.Limit != "" {
			limits[r.Name] = r.Limit
		}
		if access, listed := want[r.Name]; !listed || access != r.Access {
			t.Errorf("%s is for %q, want %q; a new route needs an entry in routeRights", r.Name, r.Access, access)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, exists := got[name]; !exists {
			t.Errorf("routeRights has %s, which is no route", name)
		}
	}
	if !maps.Equal(limits, wantLimits) {
		t.Errorf("the limits of single routes are %v, want %v", limits, wantLimits)
	}
}

// TestWorkers_RunAtTheseTimes holds the schedules of the workers. Each bounds how long a loss goes unnoticed.
func TestWorkers_RunAtTheseTimes(t *testing.T) {
	t.Parallel()
	want, got := map[string]string{
		"SweepAgents": "* * * * *", "ObserveAgents": "* * * * *", "CollectMetrics": "* * * * *",
		"EnforceAccounts": "* * * * *", "CheckDrift": "*/10 * * * *", "CollectOrphans": "17 * * * *",
		"RecountUsage": "41 3 * * *", "SealAuditLogs": "29 * * * *",
	}, map[string]string{}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		if w.Schedule != "" {
			got[w.Name] = w.Schedule
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the schedules are %v, want %v", got, want)
	}
}
