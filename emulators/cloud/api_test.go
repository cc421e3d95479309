package cloud_test

import (
	"net/http"
	"strings"
	"testing"
)

func testTenantIsolation(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "mine", "resource_plan": "hobby"}`)
	other := d.Ready.OtherOrganizationAPIKey
	const unknown = "00000000-0000-4000-8000-000000000000"
	for _, route := range []struct{ method, path string }{
		{method: http.MethodGet, path: ""},
		{method: http.MethodDelete, path: ""},
		{method: http.MethodPatch, path: ""},
		{method: http.MethodPost, path: "/stop"},
		{method: http.MethodPost, path: "/restart"},
		{method: http.MethodPost, path: "/credentials/reveal"},
		{method: http.MethodPost, path: "/migrate-sandbox"},
	} {
		body := ""
		if route.method == http.MethodPatch {
			body = `{"name": "stolen"}`
		}
		of := func(id string) answer { return d.call(t, other, route.method, "/agents/"+id+route.path, body) }
		existing, missing := of(id), of(unknown)
		what := route.method + " /agents/ID" + route.path + " of another organization"
		checkEqual(t, "status of "+what, existing.status, http.StatusNotFound)
		if existing.withoutRequestID() != missing.withoutRequestID() {
			t.Errorf("%s: got %s, but for an agent that does not exist %s", what, existing.text, missing.text)
		}
	}
	if list := d.call(t, other, http.MethodGet, "/api/v1/agents", ""); strings.Contains(list.text, id) {
		t.Errorf("the other organization lists agent %s: %s", id, list.text)
	}
	list := d.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents?name=mine", "")
	if !strings.Contains(list.text, id) {
		t.Errorf("the organization does not list its agent %s: %s", id, list.text)
	}
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

func testRefusedCreations(t *testing.T, d deployment) {
	r := d.Ready
	good := `{"name": "a", "resource_plan": "hobby"}`
	for name, c := range map[string]struct {
		token, body string
		status      int
		code        string
	}{
		"no token": {token: "", body: good, status: 401, code: "invalid_token"},
		"unknown key": {
			token: strings.Replace(r.APIKey, "so_", "so_x", 1), body: good, status: 401,
			code: "invalid_token",
		},
		"member":     {token: r.MemberToken, body: good, status: 403, code: "role_required"},
		"empty name": {token: r.AdminToken, body: `{"name": ""}`, status: 422, code: "validation_error"},
		"large body": {
			token: r.AdminToken, body: `{"name": "` + strings.Repeat("x", 300<<10) + `"}`, status: 413,
			code: "body_too_large",
		},
		"size above the plan": {
			token: r.OtherOrganizationAPIKey, body: `{"name": "a", "resource_plan": "pro"}`,
			status: 402, code: "plan_capacity_exceeded",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := d.call(t, c.token, http.MethodPost, "/api/v1/agents", c.body)
			checkRefusal(t, "creation", a, c.status, c.code)
			if list, _ := a.body["detail"].([]any); c.status == 422 && len(list) != 2 {
				t.Errorf("detail = %v, want two violations", a.body["detail"])
			}
		})
	}
}

func testAPIKeys(t *testing.T, d deployment) {
	created := d.must(t, http.StatusCreated, http.MethodPost, "/api/v1/api-keys",
		`{"name": "ci", "purpose": "ci", "expires_in_days": 30}`)
	secret, _ := created.body["secret"].(string)
	id, _ := created.body["id"].(string)
	if !strings.HasPrefix(secret, "so_") {
		t.Fatal("the created key does not begin with so_")
	}
	checkEqual(t, "key_prefix", created.body["key_prefix"], secret[:11])
	if created.body["expires_at"] == nil {
		t.Error("the created key has no expires_at")
	}
	me := d.call(t, secret, http.MethodGet, "/api/v1/me", "")
	checkEqual(t, "status of /me with the key", me.status, http.StatusOK)
	checkEqual(t, "auth_type of /me with the key", me.body["auth_type"], "api_key")
	list := d.must(t, http.StatusOK, http.MethodGet, "/api/v1/api-keys", "")
	if !strings.Contains(list.text, id) {
		t.Error("the list does not have the created key")
	}
	if strings.Contains(list.text, secret) {
		t.Error("the list shows the secret of the created key")
	}
	path := "/api/v1/api-keys/" + id
	theirs := d.call(t, d.Ready.OtherOrganizationAPIKey, http.MethodDelete, path, "")
	checkEqual(t, "status of a revocation by another organization", theirs.status, http.StatusNotFound)
	d.must(t, http.StatusNoContent, http.MethodDelete, path, "")
	me = d.call(t, secret, http.MethodGet, "/api/v1/me", "")
	checkEqual(t, "status of /me with the revoked key", me.status, http.StatusUnauthorized)
	d.must(t, http.StatusNotFound, http.MethodDelete, path, "")
}

func testCallerAndHealth(t *testing.T, d deployment) {
	me := d.call(t, d.Ready.MemberToken, http.MethodGet, "/api/v1/me", "")
	organization, _ := me.body["organization"].(map[string]any)
	checkEqual(t, "status of /me", me.status, http.StatusOK)
	checkEqual(t, "auth_type of /me", me.body["auth_type"], "session")
	checkEqual(t, "role of /me", me.body["role"], "member")
	checkEqual(t, "plan of /me", organization["plan"], "enterprise")

	o := d.call(t, d.Ready.MemberToken, http.MethodGet, "/api/v1/organizations/current", "")
	limits, _ := o.body["limits"].(map[string]any)
	checkEqual(t, "status of the organization", o.status, http.StatusOK)
	checkEqual(t, "plan of the organization", o.body["plan"], "enterprise")
	checkEqual(t, "limits.agents", limits["agents"], 100.0)
	checkEqual(t, "limits.cpu_cores", limits["cpu_cores"], 800.0)

	plans := d.call(t, d.Ready.MemberToken, http.MethodGet, "/api/v1/billing/plans", "")
	checkEqual(t, "status of the plans", plans.status, http.StatusOK)
	checkEqual(t, "number of plans", strings.Count(plans.text, `"max_agents"`), 6)

	for _, path := range []string{
		"/health", "/health/live", "/health/ready", "/api/v1/health",
		"/api/v1/health/ready",
	} {
		a := d.call(t, "", http.MethodGet, path, "")
		checkEqual(t, "HTTP status of "+path, a.status, http.StatusOK)
		checkEqual(t, "status of "+path, a.body["status"], "ok")
	}
	a := d.call(t, "", http.MethodGet, "/api/v1/nothing", "")
	checkRefusal(t, "a path that does not exist", a, http.StatusNotFound, "not_found")
}
