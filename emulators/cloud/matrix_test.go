package cloud_test

import (
	"net/http"
	"strings"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/functions/functiontest"
	"agents.example/controlplane/shared/function"
)

// samples maps routes to valid bodies: the examples of their inputs. An agent is as small as possible. Tests of package
// functions report an example that cannot be encoded.
func samples() map[string]string {
	bodies := map[string]string{}
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if example, err := functiontest.Example(r); err == nil {
			bodies[r.Name] = example.Body
		}
	}
	bodies["CreateAgent"] = `{"name": "sample", "resource_plan": "hobby"}`
	return bodies
}

// matrix calls every deployed function as callers of three kinds. functions.TestAccess has every kind of caller and
// id; here is what only a deployment can get wrong: the configuration of the guard in each process, and the rights that
// it needs to read callers.
func matrix(t *testing.T, w deployment) {
	bodies := samples()
	for _, r := range functions.Routes(functions.Dependencies{}) {
		path := ids{agent: unknownID, key: unknownID, operation: unknownID}.fill(r.Path)
		want := func(a answer, who string, status int) {
			t.Helper()
			if a.status != status {
				t.Errorf("%s by %s: status %d %s, want %d", r.Name, who, a.status, a.text, status)
			}
		}
		if r.Access == function.Public {
			if a := w.call(t, "", r.Method, path, bodies[r.Name]); a.status == 401 || a.status == 403 ||
				a.status >= 500 {
				t.Errorf("%s by a caller without a token: status %d %s", r.Name, a.status, a.text)
			}
			continue
		}
		want(w.call(t, "so_garbage", r.Method, path, bodies[r.Name]), "a bad key", http.StatusUnauthorized)
		if r.Access == function.Admin {
			want(w.call(t, w.Ready.MemberToken, r.Method, path, bodies[r.Name]), "a member", http.StatusForbidden)
		}
		endless := r.Name == "StreamEvents" // testWebhook reads it
		if !r.Mutates() && path == r.Path && !endless {
			status := r.Status
			if r.Name == "ListMembers" {
				status = http.StatusNotFound // the issuer of this cloud is not Firebase
			}
			want(w.call(t, w.Ready.AdminToken, r.Method, path, ""), "an admin", status)
			want(w.call(t, w.Ready.APIKey, r.Method, path, ""), "a key", status)
		}
	}
}

// unknownID is the id of no record.
const unknownID = "00000000-0000-4000-8000-000000000000"

// ids are the values of path parameters.
type ids struct{ agent, key, operation string }

// fill puts ids in the place of the parameters of a path.
func (i ids) fill(path string) string {
	return strings.NewReplacer("{agent_id}", i.agent, "{key_id}", i.key, "{operation_id}", i.operation,
		"{webhook_id}", unknownID, "{delivery_id}", unknownID, "{asset}", "unknown", "{user_id}", "unknown",
		"{key}", "UNKNOWN_TOKEN").Replace(path)
}
