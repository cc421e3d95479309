package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/secret"
)

// operation is a secret operation as a client sees it.
type operation struct {
	ID, Key, Action, Stage, Status string
	SecretRef                      string  `json:"secret_ref"`
	ErrorCode                      *string `json:"error_code"`
}

func (o operation) is() string {
	code := ""
	if o.ErrorCode != nil {
		code = " " + *o.ErrorCode
	}
	return o.Stage + " " + o.Status + code
}

func operationsIn(t *testing.T, a answer) []operation {
	t.Helper()
	var body struct{ Operations []operation }
	if err := json.Unmarshal([]byte(a.text), &body); err != nil {
		t.Fatal(err)
	}
	return body.Operations
}

// put sets and deletes secrets, and wants that it was accepted.
func (w world) put(t *testing.T, id, secrets string) []operation {
	t.Helper()
	return operationsIn(t, w.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": `+
		secrets+`}`))
}

// operations lists an agent's operations, the newest first.
func (w world) operations(t *testing.T, id string) []operation {
	t.Helper()
	var list []operation
	if err := json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secret-operations",
		"").text), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// until waits until an operation stands as it is said, and fails the test when it does not.
func (w world) until(t *testing.T, id string, o operation, want string) {
	t.Helper()
	w.await(t, id, "with an operation at "+want, func(answer) bool {
		a := w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secret-operations/"+o.ID, "")
		if err := json.Unmarshal([]byte(a.text), &o); err != nil {
			t.Fatal(err)
		}
		return o.is() == want
	})
}

type summary struct {
	Key           string
	LatestVersion *int64 `json:"latest_version"`
	LiveVersion   *int64 `json:"live_version"`
	InSync        bool   `json:"in_sync"`
}

func (w world) secretsOf(t *testing.T, id string) string {
	t.Helper()
	var list []summary
	if err := json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secrets", "").text),
		&list); err != nil {
		t.Fatal(err)
	}
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	told := ""
	for _, s := range list {
		told += fmt.Sprintf("%s %s/%s %t;", s.Key, number(s.LatestVersion), number(s.LiveVersion), s.InSync)
	}
	return told
}

func (w world) env(t *testing.T, id, key, want string) {
	t.Helper()
	env, ok := w.Gateway.Environment("agent-" + id)
	if got := env[key]; !ok || got != want {
		t.Errorf("the agent runs %t and sees %s=%q, want %q", ok, key, got, want)
	}
}

// rollouts counts the changes of what the agent's pod is made of.
func (w world) rollouts(t *testing.T, id string) int64 {
	t.Helper()
	s, err := w.cluster.AppsV1().StatefulSets("agent-"+id).Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Generation
}

const succeeded = "complete succeeded"

func secretsLive(t *testing.T, w world) {
	id := w.create(t, `{"name": "secrets", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	before := w.rollouts(t, id)
	made := w.put(t, id, `{"FIRST_TOKEN": "one", "PLAIN_LOOKING": "two"}`)
	if len(made) != 2 || made[0].is() != "bind pending" || made[1].is() != "bind pending" ||
		made[0].Key != "FIRST_TOKEN" ||
		made[0].SecretRef != secret.Ref(id, "FIRST_TOKEN") || made[0].Action != "set" {
		t.Fatalf("accepted %+v", made)
	}
	if a := w.call(t, w.Ready.APIKey, http.MethodGet, "/agents/"+id, ""); a.body["dashboard_warming"] != true &&
		w.secretsOf(t, id) != "FIRST_TOKEN 1/1 true;PLAIN_LOOKING 1/1 true;" {
		t.Errorf("neither warming nor done: %s", a.text)
	}
	w.until(t, id, made[0], succeeded)
	w.until(t, id, made[1], succeeded)
	if got := w.secretsOf(t, id); got != "FIRST_TOKEN 1/1 true;PLAIN_LOOKING 1/1 true;" {
		t.Errorf("secrets %s", got)
	}
	if got := w.rollouts(t, id) - before; got != 1 {
		t.Errorf("%d rollouts for a batch, want 1", got)
	}
	w.env(t, id, "FIRST_TOKEN", "one")
	w.env(t, id, "PLAIN_LOOKING", "two")
	a := w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "")
	if env, _ := a.body["env_vars"].(map[string]any); env["PLAIN_LOOKING"] != "gsm" ||
		a.body["dashboard_warming"] != false {
		t.Errorf("agent %s", a.text)
	}

	made = w.put(t, id, `{"FIRST_TOKEN": "one more", "PLAIN_LOOKING": null, "NEVER_WAS": null}`)
	if len(made) != 2 || made[1].Action != "delete" {
		t.Fatalf("accepted %+v", made)
	}
	w.until(t, id, made[0], succeeded)
	w.until(t, id, made[1], succeeded)
	w.env(t, id, "FIRST_TOKEN", "one more")
	w.env(t, id, "PLAIN_LOOKING", "")
	for key, want := range map[string][2]int{"FIRST_TOKEN": {2, 1}, "PLAIN_LOOKING": {1, 0}} {
		if ever, there := w.vault.versions(t, id, key); ever != want[0] || there != want[1] {
			t.Errorf("%s had %d versions and has %d, want %v", key, ever, there, want)
		}
	}
	if got := w.secretsOf(t, id); got != "FIRST_TOKEN 2/2 true;" {
		t.Errorf("secrets %s", got)
	}
	if a := w.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+made[0].ID+"/reconcile",
		""); a.body["code"] != "secret_operation_terminal" {
		t.Errorf("reconciled what succeeded: %s", a.text)
	}
	w.must(t, http.StatusNotFound, http.MethodDelete, "/agents/"+id+"/secrets/PLAIN_LOOKING", "")
	last := operationsIn(t, w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id+"/secrets/FIRST_TOKEN", ""))
	if len(last) != 1 {
		t.Fatalf("accepted %+v", last)
	}
	w.until(t, id, last[0], succeeded)
	w.env(t, id, "FIRST_TOKEN", "")
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// parked sets a secret of an agent that is stopped: it waits at its rollout, and is live with the next start.
func parked(t *testing.T, w world) {
	id := w.create(t, `{"name": "parked", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	made := w.put(t, id, `{"TOKEN": "late"}`)
	w.until(t, id, made[0], "rollout pending agent_not_running")
	if got := w.secretsOf(t, id); got != "TOKEN 1/- false;" {
		t.Errorf("secrets %s", got)
	}
	a := w.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+made[0].ID+"/reconcile",
		"")
	if a.body["code"] != "agent_state_conflict" {
		t.Errorf("reconciled: %s", a.text)
	}
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	w.until(t, id, made[0], succeeded)
	w.env(t, id, "TOKEN", "late")
	if got := w.secretsOf(t, id); got != "TOKEN 1/1 true;" {
		t.Errorf("secrets %s", got)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}
