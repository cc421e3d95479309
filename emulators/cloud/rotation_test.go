package cloud_test

import (
	"net/http"
	"testing"

	"agents.example/controlplane/shared/secret"
)

// credentials are an agent's, as they are revealed.
type credentials struct {
	user, password, key string
	version             any
	pending             any
}

func (w world) reveal(t *testing.T, id string) credentials {
	t.Helper()
	a := w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
	text := func(name string) string { s, _ := a.body[name].(string); return s }
	return credentials{
		text("dashboard_username"), text("dashboard_password"), text("tenant_api_key"), a.body["credential_version"],
		a.body["rotation_pending"],
	}
}

// accepts asks the agent itself.
func (w world) accepts(t *testing.T, url string, c credentials) (password, key int) {
	t.Helper()
	ask := func(set func(*http.Request)) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"auth/check", nil)
		if err != nil {
			t.Fatal(err)
		}
		set(req)
		res, err := w.Client.Do(req)
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

// rotated replaces an agent's credentials: while that is pending nothing is promised, and from the moment it is not,
// the former ones are refused and the new ones accepted.
func rotated(t *testing.T, w world) {
	id := w.create(t, `{"name": "rotated", "resource_plan": "hobby", "env_vars": {"TOKEN": "stays"}}`)
	a := w.awaitStatus(t, id, "running")
	url, _ := a.body["dashboard_url"].(string)
	former := w.reveal(t, id)
	if former.pending != false || former.version != 1.0 {
		t.Errorf("credentials of version %v, pending %v", former.version, former.pending)
	}
	a = w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/rotate", "")
	if a.body["credential_rotation_pending"] != true || a.body["dashboard_warming"] != true {
		t.Errorf("rotating: %s", a.text)
	}
	w.await(t, id, "rotated", func(a answer) bool { return a.body["credential_rotation_pending"] == false })
	if password, key := w.accepts(t, url, former); password != http.StatusUnauthorized ||
		key != http.StatusUnauthorized {
		t.Errorf("the former credentials are answered %d and %d in the moment the flag clears", password, key)
	}
	latter := w.reveal(t, id)
	if latter.password == former.password || latter.key == former.key || latter.version != 2.0 ||
		latter.pending != false {
		t.Errorf("credentials of version %v, pending %v", latter.version, latter.pending)
	}
	if password, key := w.accepts(t, url, latter); password != http.StatusNoContent || key != http.StatusNoContent {
		t.Errorf("the new credentials are answered %d and %d", password, key)
	}
	o := w.operations(t, id)[0]
	if o.Action != "rotate" || o.Key != secret.CredentialsKey || o.SecretRef != secret.Ref(id, secret.CredentialsKey) {
		t.Errorf("the operation is %+v", o)
	}
	w.until(t, id, o, succeeded)
	if ever, there := w.vault.versions(t, id, secret.CredentialsKey); ever != 2 || there != 1 {
		t.Errorf("there were %d versions of the credentials and are %d", ever, there)
	}
	w.env(t, id, "TOKEN", "stays")

	// An agent that rests is rotated by its next start, and proves it then.
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	a = w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/rotate", "")
	o = w.operations(t, id)[0]
	w.until(t, id, o, "rollout pending agent_not_running")
	again := w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/rotate", "")
	if a.body["credential_rotation_pending"] != true || again.body["credential_rotation_pending"] != true ||
		w.operations(t, id)[0].ID != o.ID {
		t.Errorf("a rotation that is pending began again: %s", again.text)
	}
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	w.until(t, id, o, succeeded)
	if password, key := w.accepts(t, url, latter); password != http.StatusUnauthorized ||
		key != http.StatusUnauthorized {
		t.Errorf("the former credentials are answered %d and %d", password, key)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}
