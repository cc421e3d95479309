package cloud_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/issuer"
	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// sample is a good body for a route that takes one. A route of the catalogue that is missing here fails the test:
// whoever adds a route says how it is called.
func samples() map[string]string {
	return map[string]string{
		"ListAgents": "", "GetAgent": "", "DeleteAgent": "", "RestartAgent": "", "PauseAgent": "", "ResumeAgent": "",
		"StopAgent":  "",
		"StartAgent": "", "MigrateAgentSandbox": `{"enabled": false}`, "UpdateAgent": `{"name": "matrix"}`,
		"GetAgentMetrics":   "",
		"CreateAgent":       `{"name": "matrix", "resource_plan": "hobby"}`,
		"RevealCredentials": "", "ListAPIKeys": "", "CreateAPIKey": `{"name": "matrix"}`, "RevokeAPIKey": "",
		"GetMe":       "",
		"ListMembers": "", "SetMember": `{"role": "member"}`, "RemoveMember": "",
		"GetSubscription": "", "CreateCheckoutSession": `{"plan": "enterprise"}`, "CreatePortalSession": "",
		"ReceiveStripeEvent":     `{"id": "evt_1"}`,
		"GetCurrentOrganization": "", "ListPlans": "", "ListAuditLog": "", "ExportAuditLog": "",
		"ListSecrets": "", "PutSecrets": `{"secrets": {"MATRIX_TOKEN": "value"}}`, "DeleteSecret": "",
		"ListSecretOperations": "",
		"GetSecretOperation":   "", "ReconcileSecretOperation": "", "RotateCredentials": "",
		"GetDashboardReachability": "", "GetHandoffKeys": "",
		"GetHealth": "", "GetHealthV1": "", "GetHealthLive": "", "GetHealthLiveV1": "", "GetHealthReady": "",
		"GetHealthReadyV1": "",
		"GetOpenAPI":       "", "GetPlayground": "", "GetPlaygroundAsset": "",
	}
}

// target is what a path's parameter is filled with.
type target string

const (
	own       target = "own"       // the organization's own
	unknown   target = "unknown"   // nobody's
	malformed target = "malformed" // no id at all
)

// matrix calls every route of the catalogue as every kind of caller, with every kind of id.
func matrix(t *testing.T, w world) {
	agent := w.create(t, `{"name": "matrix", "resource_plan": "hobby", "env_vars": {"MATRIX_TOKEN": "x"}}`)
	w.awaitStatus(t, agent, "running")
	mine := ids{agent: agent, operation: w.operations(t, agent)[0].ID}
	mine.key, _ = w.must(t, http.StatusCreated, http.MethodPost, "/api/v1/api-keys",
		`{"name": "matrix"}`).body["id"].(string)
	nowhere, err := w.Issuer.Session(issuer.Session{Subject: "user_nowhere"})
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for _, r := range functions.Routes(functions.Dependencies{}) {
		body, ok := samples()[r.Name]
		if !ok {
			t.Errorf("route %s has no sample: add one, so that who may call it is tested", r.Name)
			continue
		}
		path := func(to target) string { return mine.to(to).fill(r.Path) }
		call := func(token string, to target) answer {
			cells++
			return w.call(t, token, r.Method, path(to), body)
		}
		want := func(a answer, who string, status int, code string) {
			if a.status != status || (code != "" && a.body["code"] != code) {
				t.Errorf("%s by %s: %d %v, want %d %s", r.Name, who, a.status, a.body["code"], status, code)
			}
		}
		if r.Access == function.Public {
			if a := call("", own); a.status == 401 || a.status == 403 || a.status >= 500 {
				t.Errorf("%s by nobody: %d", r.Name, a.status)
			}
			continue
		}
		for _, to := range []target{own, unknown, malformed} {
			want(call("", to), "nobody", 401, "invalid_token")
			want(call("so_garbage", to), "garbage", 401, "invalid_token")
			want(call(w.Issuer.URL(), to), "no JWT", 401, "invalid_token")
			if r.Access != function.User {
				want(call(nowhere, to), "a session without an organization", 403, "organization_required")
			}
			if r.Access == function.Admin {
				want(call(w.Ready.MemberToken, to), "a member", 403, "role_required")
			}
		}
		letIn(t, w, r, func(token string) answer { return call(token, own) })
		strangersAndTypos(t, w, r, path, body)
	}
	if cells < 300 {
		t.Errorf("only %d cells", cells)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+agent, "")
}

// otherwise lists the routes that don't succeed in this cloud, whoever calls: its issuer is not Firebase's, nobody has
// paid yet, and the one plan that has room for whatever the other stories create is not for sale.
func otherwise() map[string]int {
	return map[string]int{
		"ListMembers": http.StatusNotFound, "CreatePortalSession": http.StatusConflict,
		"CreateCheckoutSession": http.StatusForbidden,
	}
}

// letIn calls a route as those who may call it. What would change the agent or the key under the other calls is told in
// the other stories.
func letIn(t *testing.T, w world, r function.Route, call func(token string) answer) {
	t.Helper()
	if r.Mutates() && strings.Contains(r.Path, "{") {
		return
	}
	callers := map[string]string{"a key": w.Ready.APIKey, "an admin": w.Ready.AdminToken}
	if r.Access != function.Admin {
		callers["a member"] = w.Ready.MemberToken
	}
	for who, token := range callers {
		status := r.Status
		if here, ok := otherwise()[r.Name]; ok {
			status = here
		}
		a := call(token)
		if a.status != status {
			t.Errorf("%s by %s: %d %s, want %d", r.Name, who, a.status, a.text, status)
		}
		if id, _ := a.body["id"].(string); r.Name == "CreateAgent" && id != "" {
			w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		}
	}
	if r.Feature == "" {
		return
	}
	if a := call(w.Ready.OtherOrganizationAPIKey); a.status != http.StatusForbidden ||
		a.body["code"] != "plan_feature_required" {
		t.Errorf("%s on a plan without %s: %d %s", r.Name, r.Feature, a.status, a.text)
	}
}

// strangersAndTypos calls a route with an id: another organization's can't be told from one that never was, and a
// malformed one is named.
func strangersAndTypos(t *testing.T, w world, r function.Route, path func(target) string, body string) {
	t.Helper()
	if path(own) == path(malformed) || r.Access == function.Public {
		return
	}
	stranger := w.Ready.OtherOrganizationAPIKey
	theirs, nobodys := w.call(t, stranger, r.Method, path(own), body),
		w.call(t, stranger, r.Method, path(unknown), body)
	if theirs.status != http.StatusNotFound || theirs.withoutRequestID() != nobodys.withoutRequestID() {
		t.Errorf("%s of another organization: %d %s, of nobody %s", r.Name, theirs.status, theirs.text, nobodys.text)
	}
	for who, token := range map[string]string{"a key": w.Ready.APIKey, "an admin": w.Ready.AdminToken} {
		if a := w.call(t, token, r.Method, path(unknown), body); a.status != http.StatusNotFound {
			t.Errorf("%s of nobody by %s: %d %s", r.Name, who, a.status, a.text)
		}
		if a := w.call(t, token, r.Method, path(malformed), body); a.status != http.StatusUnprocessableEntity ||
			!strings.Contains(a.text, "uuid_parsing") {
			t.Errorf("%s with a malformed id by %s: %d %s", r.Name, who, a.status, a.text)
		}
	}
}

// ids are what a path's parameters are filled with.
type ids struct{ agent, key, operation string }

// to are the ids of a target, where own are the organization's own.
func (own ids) to(to target) ids {
	switch to {
	case unknown:
		const nobodys = "00000000-0000-4000-8000-000000000000"
		return ids{nobodys, nobodys, nobodys}
	case malformed:
		return ids{"nope", "nope", "nope"}
	default:
		return own
	}
}

// fill puts ids into a path.
func (own ids) fill(path string) string {
	return strings.NewReplacer("{agent_id}", own.agent, "{key_id}", own.key, "{operation_id}", own.operation, "{asset}",
		"nothing",
		"{key}", "MATRIX_TOKEN").Replace(path)
}
