package functions_test

import (
	"context"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/apikey"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/plan"
)

// accessTest calls one route as any caller, with the dependencies of its needs alone.
type accessTest struct {
	*samples
	route function.Route
	calls *atomic.Int32
}

func newAccessTest(t *testing.T, index int, calls *atomic.Int32) *accessTest {
	t.Helper()
	s := newSamples(t)
	needs := functions.Routes(functions.Dependencies{})[index].Needs
	d, err := s.Open(needs)
	must(t, err)
	a := &accessTest{samples: s, route: functions.Routes(d)[index], calls: calls}
	if prepare := routeCases()[a.route.Name]; prepare != nil {
		prepare(t, s)
	}
	return a
}

// parameters are the values of path parameters by what they name. They are different only if the path has parameters.
func (a *accessTest) parameters() map[string]map[string]string {
	all := map[string]map[string]string{"own": a.path}
	if !strings.Contains(a.route.Path, "{") {
		return all
	}
	unknown := map[string]string{"key": "UNKNOWN_KEY", "user_id": "unknown", "asset": "unknown", "path": "unknown"}
	malformed := map[string]string{"key": "-", "user_id": "-", "asset": "-", "path": "-"}
	for _, name := range []string{"agent_id", "operation_id", "key_id", "webhook_id", "delivery_id", "snapshot_id"} {
		unknown[name], malformed[name] = unknownID, "nope"
	}
	unknown["snapshot_id"] = unknownSnapshot
	all["unknown"], all["malformed"] = unknown, malformed
	return all
}

// call calls the route with its example.
func (a *accessTest) call(t *testing.T, path map[string]string, as ...functiontest.Option) functiontest.Response {
	t.Helper()
	a.calls.Add(1)
	return a.Call(t, a.route, append(a.requestAbout(t, a.route, path), as...)...)
}

// createKey stores an API key that expires, or has expired, and returns its secret. The route that creates keys only
// makes keys that are good for days.
func (s *samples) createKey(t *testing.T, organizationID string, r identity.Role, expiresAt time.Time,
) (secret string) {
	t.Helper()
	secret = apikey.Generate()
	ctx := call.As(t.Context(),
		identity.Caller{
			Type: identity.Session, ID: unknownID, OrganizationID: organizationID,
			Role: identity.RoleAdmin,
		})
	_, err := s.Keys.Create(ctx, apikey.Key{
		ID: uuid.NewString(), OrganizationID: organizationID, Name: "test", Purpose: apikey.DefaultPurpose, Role: r,
		Prefix: secret[:apikey.PrefixLength], Hash: apikey.Hash(s.Pepper, secret), CreatedBy: unknownID,
		CreatedAt: time.Now().AddDate(0, 0, -2), ExpiresAt: expiresAt,
	})
	must(t, err)
	return secret
}

// createMemberKey stores an API key that may only read, and returns its secret.
func (s *samples) createMemberKey(t *testing.T, organizationID string) (secret string) {
	t.Helper()
	return s.createKey(t, organizationID, identity.RoleMember, time.Now().Add(time.Hour))
}

// revokedKey returns the secret of an API key that was good.
func (s *samples) revokedKey(t *testing.T) string {
	t.Helper()
	id, secret := s.CreateKey(t, org)
	s.CallNamed(t, "RevokeAPIKey", functiontest.AsAdmin(org), functiontest.Path("key_id", id)).
		Want(t, http.StatusNoContent, "")
	return secret
}

// refused is a caller that a route refuses, and how.
type refused struct {
	as     functiontest.Option
	status int
	code   string
}

// refusedCallers lists the callers that the route refuses whatever they ask for.
func (a *accessTest) refusedCallers(t *testing.T) map[string]refused {
	t.Helper()
	invalid := func(token string) refused {
		return refused{functiontest.WithToken(token), http.StatusUnauthorized, "invalid_token"}
	}
	callers := map[string]refused{
		"no token": {as: func(*functiontest.Request) {}, status: http.StatusUnauthorized, code: "missing_token"},
		"password": {
			as: functiontest.Header("Authorization", "Basic YTpi"), status: http.StatusUnauthorized,
			code: "invalid_token",
		},
		"empty token": invalid(""), "garbage": invalid("garbage"), "malformed key": invalid("so_garbage"),
		"unknown key": invalid(apikey.Generate()), "revoked key": invalid(a.revokedKey(t)),
		"expired key": invalid(a.createKey(t, org, identity.RoleAdmin, time.Now().Add(-time.Second))),
	}
	if a.route.Access != function.User && a.route.Access != function.Bearer {
		callers["session without an organization"] = refused{
			functiontest.AsUser(), http.StatusForbidden,
			"organization_required",
		}
	}
	if a.route.Access == function.Admin {
		callers["member"] = refused{functiontest.AsMember(org), http.StatusForbidden, "role_required"}
		callers["member key"] = refused{
			functiontest.WithToken(a.createMemberKey(t, org)), http.StatusForbidden, "role_required",
		}
	}
	if a.route.Feature != "" {
		callers["admin on a plan without "+a.route.Feature] = refused{
			functiontest.AsAdmin(otherOrg),
			http.StatusForbidden, "plan_feature_required",
		}
	}
	return callers
}

// admittedCallers lists the callers of the organization that the route admits.
func (a *accessTest) admittedCallers(t *testing.T) map[string]functiontest.Option {
	t.Helper()
	if a.route.Access == function.Public {
		return map[string]functiontest.Option{"no token": func(*functiontest.Request) {}}
	}
	key := a.createKey(t, org, identity.RoleAdmin, time.Now().Add(time.Hour))
	callers := map[string]functiontest.Option{"admin": functiontest.AsAdmin(org), "key": functiontest.WithToken(key)}
	if a.route.Access != function.Admin {
		callers["member"] = functiontest.AsMember(org)
		callers["member key"] = functiontest.WithToken(a.createMemberKey(t, org))
	}
	if a.route.Access == function.User || a.route.Access == function.Bearer {
		callers["session without an organization"] = functiontest.AsUser()
	}
	return callers
}

// TestAccess calls every route of the catalogue with its example, as every kind of caller, with every kind of id.
func TestAccess(t *testing.T) {
	t.Parallel()
	var calls, routes atomic.Int32
	t.Run("routes", func(t *testing.T) {
		for i, r := range functions.Routes(functions.Dependencies{}) {
			t.Run(r.Name, func(t *testing.T) {
				t.Parallel()
				routes.Add(1)
				start := func() *accessTest { return newAccessTest(t, i, &calls) }
				a := start()
				if r.Access != function.Public {
					checkRefused(t, a)
					checkIDs(t, a)
				}
				checkAdmitted(t, a, start)
				checkDeleting(t, start())
			})
		}
	})
	all := len(functions.Routes(functions.Dependencies{}))
	if n := calls.Load(); int(routes.Load()) == all && n < 1000 { // -run may select some
		t.Errorf("the test made only %d calls", n)
	}
}

// checkAdmitted calls a route as every caller that it admits. A call that may change the samples is made on
// fresh ones.
func checkAdmitted(t *testing.T, a *accessTest, start func() *accessTest) {
	t.Helper()
	callers := a.admittedCallers(t)
	for i, who := range slices.Sorted(maps.Keys(callers)) {
		if i > 0 && (a.route.Mutates() || a.route.Audited) { // which may change what the next one finds
			a = start()
			callers = a.admittedCallers(t)
		}
		if res := a.call(t, a.path, callers[who]); res.Status != answeredStatus(a.route) {
			t.Errorf("%s: answer %d %s, want %d (see TestRoutes_DeclareWhatTheyUse/%s for missing needs)",
				who, res.Status, res.Body, a.route.Status, a.route.Name)
		}
	}
}

// checkDeleting calls a route on an agent that is being deleted: a refusal that the route does not list in its Errors
// is missing in its description, against which the backend checks every answer.
func checkDeleting(t *testing.T, a *accessTest) {
	t.Helper()
	if !a.route.Mutates() || !strings.Contains(a.route.Path, "{agent_id}") {
		return
	}
	a.CallNamed(t, "DeleteAgent", functiontest.AsAdmin(org), functiontest.Path("agent_id", a.agentID)).
		Want(t, http.StatusAccepted, "")
	if res := a.call(t, a.path, functiontest.AsAdmin(org)); res.Status >= 500 {
		t.Errorf("on an agent that is being deleted: answer %d %s", res.Status, res.Body)
	}
}

// checkRefused calls a route as everyone who may not call it. The refusal must not depend on what the path names.
func checkRefused(t *testing.T, a *accessTest) {
	t.Helper()
	for who, c := range a.refusedCallers(t) {
		for which, path := range a.parameters() {
			res := a.call(t, path, c.as)
			if res.Status != c.status || res.Code() != c.code {
				t.Errorf("%s with %s ids: answer %d %q, want %d %q", who, which, res.Status, res.Code(), c.status,
					c.code)
			}
		}
	}
}

// checkIDs calls a route with ids that the caller's organization does not have: another organization's ids must look
// like ids that never were, and a malformed id is named.
func checkIDs(t *testing.T, a *accessTest) {
	t.Helper()
	paths := a.parameters()
	if len(paths) == 1 {
		return
	}
	a.SetPlan(t, otherOrg, plan.Enterprise) // a plan without the route's feature would be refused for that
	otherKey := a.createKey(t, otherOrg, identity.RoleAdmin, time.Now().Add(time.Hour))
	for who, as := range map[string]functiontest.Option{
		"other organization's admin": functiontest.AsAdmin(otherOrg),
		"other organization's key":   functiontest.WithToken(otherKey),
	} {
		theirs, unknown := a.call(t, paths["own"], as), a.call(t, paths["unknown"], as)
		if theirs.Status != http.StatusNotFound || withoutRequestID(theirs) != withoutRequestID(unknown) {
			t.Errorf("%s: answer %d %s, want the answer for unknown ids, %s", who, theirs.Status, theirs.Body,
				unknown.Body)
		}
	}
	for who, as := range a.admittedCallers(t) {
		if res := a.call(t, paths["unknown"], as); res.Status != http.StatusNotFound {
			t.Errorf("%s with unknown ids: answer %d %s, want 404", who, res.Status, res.Body)
		}
		if res := a.call(t, paths["malformed"], as); res.Status != http.StatusUnprocessableEntity ||
			!strings.Contains(string(res.Body), `"loc":["path",`) {
			t.Errorf("%s with malformed ids: answer %d %s, want 422 for the path", who, res.Status, res.Body)
		}
	}
}

// TestAccess_MemberKeysReadWhatMembersRead compares the answers to a member's session and to a member key, and checks
// that they hide what only admins see.
func TestAccess_MemberKeysReadWhatMembersRead(t *testing.T) {
	t.Parallel()
	s := newSamples(t)
	member, key := functiontest.AsMember(org), functiontest.WithToken(s.createMemberKey(t, org))
	for _, r := range functions.Routes(s.Dependencies) {
		if r.Access != function.Member || r.Name == "GetDashboardReachability" { // which measures times
			continue
		}
		ask := func(as functiontest.Option) string {
			return string(s.Call(t, r, append(s.requestAbout(t, r, s.path), as)...).Want(t, r.Status, "").Body)
		}
		if got, want := ask(key), ask(member); got != want {
			t.Errorf("%s answers a member key %s\nwant the answer to a member, %s", r.Name, got, want)
		}
	}
	view := s.CallNamed(t, "GetAgent", key, functiontest.Path("agent_id", s.agentID))
	for name, want := range map[string]any{
		"dashboard_username": nil, "dashboard_handoff_url": nil, "env_vars": map[string]any{},
	} {
		if got := view.JSON[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s of an agent for a member key = %v, want %v", name, got, want)
		}
	}
}

// withoutRequestID is a body without the one part that differs between two calls.
func withoutRequestID(r functiontest.Response) string {
	return strings.ReplaceAll(string(r.Body), r.Text("request_id"), "")
}

// refuseAll refuses every push.
type refuseAll struct{}

// Verify implements function.PushVerifier.
func (refuseAll) Verify(context.Context, string) error { return identity.InvalidToken() }

// TestAccess_WorkersVerifyPushes calls every worker with a token that the verifier refuses.
func TestAccess_WorkersVerifyPushes(t *testing.T) {
	t.Parallel()
	for _, w := range functions.Workers(functions.Dependencies{}) {
		for name, as := range map[string]functiontest.Option{
			"no token": func(*functiontest.Request) {}, "bad token": functiontest.WithToken("garbage"),
		} {
			res := functiontest.Send(t, w.Handler(refuseAll{}), http.MethodPost, w.Path(), as,
				functiontest.RawBody(`{"message": {"messageId": "1"}}`))
			if res.Status != http.StatusUnauthorized {
				t.Errorf("%s with %s: answer %d %s, want 401", w.Name, name, res.Status, res.Body)
			}
		}
	}
}
