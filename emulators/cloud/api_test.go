package cloud_test

import (
	"net/http"
	"strings"
	"testing"
)

func strangers(t *testing.T, w world) {
	id := w.create(t, `{"name": "mine", "resource_plan": "hobby"}`)
	other := w.Ready.OtherOrganizationAPIKey
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
		theirs := w.call(t, other, route.method, "/agents/"+id+route.path, body)
		nobodys := w.call(t, other, route.method, "/agents/"+unknown+route.path, body)
		if theirs.status != http.StatusNotFound || theirs.withoutRequestID() != nobodys.withoutRequestID() {
			t.Errorf("%s %s: %d %s, an unknown one %s", route.method, route.path, theirs.status, theirs.text,
				nobodys.text)
		}
	}
	if list := w.call(t, other, http.MethodGet, "/api/v1/agents", ""); strings.Contains(list.text, id) {
		t.Errorf("the other organization lists %s", list.text)
	}
	if list := w.must(t, http.StatusOK, http.MethodGet, "/api/v1/agents?name=mine", ""); !strings.Contains(list.text,
		id) {
		t.Errorf("the own organization lists %s", list.text)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

func refusals(t *testing.T, w world) {
	r := w.Ready
	good := `{"name": "a", "resource_plan": "hobby"}`
	for name, c := range map[string]struct {
		token, body string
		status      int
		code        string
	}{
		"nobody": {token: "", body: good, status: 401, code: "invalid_token"},
		"an unknown key": {token: strings.Replace(r.APIKey, "so_", "so_x", 1), body: good, status: 401,
			code: "invalid_token"},
		"a member": {token: r.MemberToken, body: good, status: 403, code: "role_required"},
		"no name":  {token: r.AdminToken, body: `{"name": ""}`, status: 422, code: "validation_error"},
		"a large body": {token: r.AdminToken, body: `{"name": "` + strings.Repeat("x", 300<<10) + `"}`, status: 413,
			code: "body_too_large"},
		"a large plan": {token: r.OtherOrganizationAPIKey, body: `{"name": "a", "resource_plan": "pro"}`, status: 402,
			code: "plan_capacity_exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := w.call(t, c.token, http.MethodPost, "/api/v1/agents", c.body)
			if a.status != c.status || a.body["code"] != c.code {
				t.Fatalf("%d %s, want %d %s", a.status, a.text, c.status, c.code)
			}
			if list, _ := a.body["detail"].([]any); c.status == 422 && len(list) != 2 {
				t.Errorf("detail %v", a.body["detail"])
			}
		})
	}
}

func keys(t *testing.T, w world) {
	made := w.must(t, http.StatusCreated, http.MethodPost, "/api/v1/api-keys",
		`{"name": "ci", "purpose": "ci", "expires_in_days": 30}`)
	secret, _ := made.body["secret"].(string)
	id, _ := made.body["id"].(string)
	if !strings.HasPrefix(secret, "so_") || made.body["key_prefix"] != secret[:11] || made.body["expires_at"] == nil {
		t.Fatalf("created %v", made.body["key_prefix"])
	}
	if a := w.call(t, secret, http.MethodGet, "/api/v1/me", ""); a.status != http.StatusOK ||
		a.body["auth_type"] != "api_key" {
		t.Errorf("me: %d %s", a.status, a.text)
	}
	if list := w.must(t, http.StatusOK, http.MethodGet, "/api/v1/api-keys", ""); !strings.Contains(list.text, id) ||
		strings.Contains(list.text, secret) {
		t.Error("the list lacks the key, or shows it")
	}
	if a := w.call(t, w.Ready.OtherOrganizationAPIKey, http.MethodDelete, "/api/v1/api-keys/"+id,
		""); a.status != http.StatusNotFound {
		t.Errorf("another organization revokes the key: %d", a.status)
	}
	w.must(t, http.StatusNoContent, http.MethodDelete, "/api/v1/api-keys/"+id, "")
	if a := w.call(t, secret, http.MethodGet, "/api/v1/me", ""); a.status != http.StatusUnauthorized {
		t.Errorf("a revoked key is let in: %d", a.status)
	}
	w.must(t, http.StatusNotFound, http.MethodDelete, "/api/v1/api-keys/"+id, "")
}

func callers(t *testing.T, w world) {
	a := w.call(t, w.Ready.MemberToken, http.MethodGet, "/api/v1/me", "")
	organization, _ := a.body["organization"].(map[string]any)
	if a.status != http.StatusOK || a.body["auth_type"] != "session" || a.body["role"] != "member" ||
		organization["plan"] != "enterprise" {
		t.Errorf("me: %d %s", a.status, a.text)
	}
	o := w.call(t, w.Ready.MemberToken, http.MethodGet, "/api/v1/organizations/current", "")
	limits, _ := o.body["limits"].(map[string]any)
	if o.status != http.StatusOK || o.body["plan"] != "enterprise" || limits["agents"] != 100.0 ||
		limits["cpu_cores"] != 800.0 {
		t.Errorf("organization: %d %s", o.status, o.text)
	}
	if plans := w.call(t, w.Ready.MemberToken, http.MethodGet, "/api/v1/billing/plans",
		""); plans.status != http.StatusOK || strings.Count(plans.text, `"max_agents"`) != 6 {
		t.Errorf("plans: %d %s", plans.status, plans.text)
	}
	for _, path := range []string{"/health", "/health/live", "/health/ready", "/api/v1/health",
		"/api/v1/health/ready"} {
		if a := w.call(t, "", http.MethodGet, path, ""); a.status != http.StatusOK || a.body["status"] != "ok" {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	if a := w.call(t, "", http.MethodGet, "/api/v1/nothing", ""); a.status != http.StatusNotFound ||
		a.body["code"] != "not_found" {
		t.Errorf("an unknown path: %d %s", a.status, a.text)
	}
}
