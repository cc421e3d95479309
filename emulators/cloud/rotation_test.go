package cloud_test

import (
	"fmt"
	"net/http"
	"testing"

	"agents.example/controlplane/shared/secret"
)

// credentials are the revealed credentials of an agent.
type credentials struct {
	user, password, key string
	version             any
	pending             any
}

func (d deployment) revealCredentials(t *testing.T, id string) credentials {
	t.Helper()
	a := d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
	text := func(name string) string { s, _ := a.body[name].(string); return s }
	return credentials{
		user: text("dashboard_username"), password: text("dashboard_password"), key: text("tenant_api_key"),
		version: a.body["credential_version"], pending: a.body["rotation_pending"],
	}
}

// tryCredentials calls the agent with its password and with its key, and returns the statuses.
func (d deployment) tryCredentials(t *testing.T, url string, c credentials) (password, key int) {
	t.Helper()
	ask := func(set func(*http.Request)) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"auth/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		res, err := d.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		return res.StatusCode
	}
	return ask(func(r *http.Request) { r.SetBasicAuth(c.user, c.password) }),
		ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.key) })
}

// testCredentialRotation replaces an agent's credentials. As soon as the rotation is no longer pending, the agent
// refuses the former credentials and accepts the new ones.
func testCredentialRotation(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "rotated", "resource_plan": "hobby", "env_vars": {"TOKEN": "stays"}}`)
	a := d.awaitStatus(t, id, "running")
	url, _ := a.body["dashboard_url"].(string)
	former := d.revealCredentials(t, id)
	checkEqual(t, "version of the first credentials", former.version, 1.0)
	checkEqual(t, "rotation_pending before a rotation", former.pending, false)
	rotate := "/agents/" + id + "/credentials/rotate"
	a = d.must(t, http.StatusOK, http.MethodPost, rotate, "")
	checkEqual(t, "credential_rotation_pending", a.body["credential_rotation_pending"], true)
	checkEqual(t, "dashboard_warming", a.body["dashboard_warming"], true)
	d.await(t, id, "rotated", func(a answer) bool { return a.body["credential_rotation_pending"] == false })
	d.checkCredentials(t, url, former, http.StatusUnauthorized)
	latter := d.revealCredentials(t, id)
	if latter.password == former.password || latter.key == former.key {
		t.Error("a rotation keeps the password or the key")
	}
	checkEqual(t, "version of the second credentials", latter.version, 2.0)
	checkEqual(t, "rotation_pending after the rotation", latter.pending, false)
	d.checkCredentials(t, url, latter, http.StatusNoContent)
	o := d.operations(t, id)[0]
	checkEqual(t, "action", o.Action, "rotate")
	checkEqual(t, "key", o.Key, secret.CredentialsKey)
	checkEqual(t, "secret_ref", o.SecretRef, secret.Ref(id, secret.CredentialsKey))
	d.awaitOperation(t, id, o, succeeded)
	d.secretStore.checkVersions(t, id, secret.CredentialsKey, versions{added: 2, enabled: 1})
	d.checkEnv(t, id, "TOKEN", "stays")

	// A stopped agent gets the new credentials with its next start.
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	a = d.must(t, http.StatusOK, http.MethodPost, rotate, "")
	o = d.operations(t, id)[0]
	d.awaitOperation(t, id, o, "rollout pending agent_not_running")
	again := d.must(t, http.StatusOK, http.MethodPost, rotate, "")
	checkEqual(t, "credential_rotation_pending while stopped", a.body["credential_rotation_pending"], true)
	checkEqual(t, "credential_rotation_pending, second request", again.body["credential_rotation_pending"], true)
	checkEqual(t, "operation of the second request", d.operations(t, id)[0].ID, o.ID)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	d.awaitOperation(t, id, o, succeeded)
	d.checkCredentials(t, url, latter, http.StatusUnauthorized)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// checkCredentials checks the status with which the agent answers its password and its key.
func (d deployment) checkCredentials(t *testing.T, url string, c credentials, want int) {
	t.Helper()
	password, key := d.tryCredentials(t, url, c)
	checkEqual(t, fmt.Sprintf("status for the password of version %v", c.version), password, want)
	checkEqual(t, fmt.Sprintf("status for the key of version %v", c.version), key, want)
}
