package functions_test

import (
	"cmp"
	"maps"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/ratelimit"
)

// widerRights returns who may call each route that more callers than admins may call. It is written by hand: the other
// tests of access derive their expectations from the routes, and so would find no route that admits too many callers.
func widerRights() map[string]function.Access {
	rights := map[string]function.Access{}
	for access, names := range map[function.Access][]string{
		function.Public: {
			"GetClientFile", "GetClients", "GetConsole", "GetConsoleAsset",
			"GetHandoffKeys", "GetHealth", "GetHealthLive", "GetHealthLiveV1", "GetHealthReady",
			"GetHealthReadyV1", "GetHealthV1", "GetMCPProtectedResource", "GetOpenAPI", "GetPlayground",
			"GetPlaygroundAsset", "GetProtectedResource", "IntrospectHandoff", "ReceiveStripeEvent",
		},
		function.Bearer: {
			"CallMCP",
		},
		function.User: {
			"GetMe",
		},
		function.Member: {
			"DiagnoseAgent", "GetAgent", "GetAgentMetrics", "GetCurrentOrganization", "GetDashboardReachability",
			"GetOrganizationMetrics",
			"GetSnapshot", "GetSubscription", "ListAgents", "ListEvents", "ListImages", "ListMembers", "ListPlans",
			"ListSnapshots", "StreamEvents",
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
	wider := widerRights()
	wantLimits := map[string]ratelimit.Class{
		"RevealCredentials": ratelimit.Reveals, "CreateCheckoutSession": ratelimit.Payments,
		"CreatePortalSession": ratelimit.Payments, "SetMember": ratelimit.Members, "RemoveMember": ratelimit.Members,
	}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Limit != "" {
			limits[r.Name] = r.Limit
		}
		if want := cmp.Or(wider[r.Name], function.Admin); r.Access != want {
			t.Errorf("%s is for %q, want %q: if they may call it, say so in widerRights", r.Name, r.Access, want)
		}
		delete(wider, r.Name)
	}
	if len(wider) > 0 {
		t.Errorf("widerRights has %v, which are no routes", wider)
	}
	if !maps.Equal(limits, wantLimits) {
		t.Errorf("the limits of single routes are %v, want %v", limits, wantLimits)
	}
}

// TestWorkers_RunAtTheseTimes holds the schedules that bound how long a loss goes unnoticed.
func TestWorkers_RunAtTheseTimes(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"SweepAgents": "* * * * *", "ObserveAgents": "* * * * *", "CollectMetrics": "* * * * *",
		"EnforceAccounts": "* * * * *", "CheckDrift": "*/10 * * * *", "CollectOrphans": "17 * * * *",
		"RecountUsage": "41 3 * * *", "SealAuditLogs": "29 * * * *", "CheckBackups": "11 5 * * *",
	}
	for _, w := range functions.Workers(functions.Dependencies{}) {
		if schedule, listed := want[w.Name]; listed && w.Schedule != schedule {
			t.Errorf("%s runs at %q, want %q", w.Name, w.Schedule, schedule)
		}
		delete(want, w.Name)
	}
	if len(want) > 0 {
		t.Errorf("no workers run at %v", want)
	}
}
