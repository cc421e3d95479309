package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/secret"
)

// operation is a secret operation of the API.
type operation struct {
	ID, Key, Action, Stage, Status string
	SecretRef                      string  `json:"secret_ref"`
	ErrorCode                      *string `json:"error_code"`
}

// state returns the stage, the status and the error code, if there is one.
func (o operation) state() string {
	code := ""
	if o.ErrorCode != nil {
		code = " " + *o.ErrorCode
	}
	return o.Stage + " " + o.Status + code
}

func decodeOperations(t *testing.T, a answer) []operation {
	t.Helper()
	var body struct{ Operations []operation }
	if err := json.Unmarshal([]byte(a.text), &body); err != nil {
		t.Fatal(err)
	}
	return body.Operations
}

// putSecrets sets and deletes secrets. It ends the test unless they are accepted.
func (d deployment) putSecrets(t *testing.T, id, secrets string) []operation {
	t.Helper()
	return decodeOperations(t, d.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": `+
		secrets+`}`))
}

// operations lists an agent's operations, newest first.
func (d deployment) operations(t *testing.T, id string) []operation {
	t.Helper()
	var list []operation
	if err := json.Unmarshal([]byte(d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secret-operations",
		"").text), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// awaitOperation waits until an operation has a state.
func (d deployment) awaitOperation(t *testing.T, id string, o operation, want string) {
	t.Helper()
	d.await(t, id, "with an operation at "+want, func(answer) bool {
		a := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secret-operations/"+o.ID, "")
		if err := json.Unmarshal([]byte(a.text), &o); err != nil {
			t.Fatal(err)
		}
		return o.state() == want
	})
}

// awaitNewest waits until the newest operation of an agent has succeeded.
func awaitNewest(t *testing.T, d deployment, id string) {
	t.Helper()
	d.awaitOperation(t, id, d.operations(t, id)[0], succeeded)
}

// awaitOperations waits until all operations of an agent have succeeded. It is for agents that the test makes older:
// only operations in progress age with them, so the newest one may not be the first of the list.
func (d deployment) awaitOperations(t *testing.T, id string) {
	t.Helper()
	d.await(t, id, "with operations that succeeded", func(answer) bool {
		return !slices.ContainsFunc(d.operations(t, id), func(o operation) bool { return o.state() != succeeded })
	})
}

type summary struct {
	Key           string
	LatestVersion *int64 `json:"latest_version"`
	LiveVersion   *int64 `json:"live_version"`
	InSync        bool   `json:"in_sync"`
}

// secretsText lists an agent's secrets, each as "KEY latest/live in_sync;".
func (d deployment) secretsText(t *testing.T, id string) string {
	t.Helper()
	var list []summary
	if err := json.Unmarshal([]byte(d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secrets", "").text),
		&list); err != nil {
		t.Fatal(err)
	}
	number := func(n *int64) string {
		if n == nil {
			return "-"
		}
		return fmt.Sprint(*n)
	}
	text := ""
	for _, s := range list {
		text += fmt.Sprintf("%s %s/%s %t;", s.Key, number(s.LatestVersion), number(s.LiveVersion), s.InSync)
	}
	return text
}

// checkEnv checks an environment variable of the running agent.
func (d deployment) checkEnv(t *testing.T, id, key, want string) {
	t.Helper()
	env, ok := d.environmentOf(t, id)
	if got := env[key]; !ok || got != want {
		t.Errorf("%s in the agent's environment = %q (running: %t), want %q", key, got, ok, want)
	}
}

// countRollouts counts the changes of the agent's pod template.
func (d deployment) countRollouts(t *testing.T, id string) int64 {
	t.Helper()
	s, err := d.cluster.StatefulSets("agent-"+id).Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s.Generation
}

const succeeded = "complete succeeded"

// testSecretLifecycle sets, replaces and deletes secrets of a running agent.
func testSecretLifecycle(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "secrets", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	checkSecretsAreSet(t, d, id)
	done := checkSecretsAreReplacedAndDeleted(t, d, id)

	terminal := d.must(t, http.StatusConflict, http.MethodPost,
		"/agents/"+id+"/secret-operations/"+done.ID+"/reconcile", "")
	checkEqual(t, "code of reconciling a finished operation", terminal.body["code"], "secret_operation_terminal")
	d.must(t, http.StatusNotFound, http.MethodDelete, "/agents/"+id+"/secrets/PLAIN_LOOKING", "")
	last := decodeOperations(t,
		d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id+"/secrets/FIRST_TOKEN", ""))
	if len(last) != 1 {
		t.Fatalf("operations of a deletion = %+v, want one", last)
	}
	d.awaitOperation(t, id, last[0], succeeded)
	d.checkEnv(t, id, "FIRST_TOKEN", "")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// checkSecretsAreSet sets two secrets, which reach the agent in one rollout.
func checkSecretsAreSet(t *testing.T, d deployment, id string) {
	t.Helper()
	const live = "FIRST_TOKEN 1/1 true;PLAIN_LOOKING 1/1 true;"
	before := d.countRollouts(t, id)
	accepted := d.putSecrets(t, id, `{"FIRST_TOKEN": "one", "PLAIN_LOOKING": "two"}`)
	if len(accepted) != 2 {
		t.Fatalf("accepted operations = %+v, want two", accepted)
	}
	for _, o := range accepted {
		checkEqual(t, "state of accepted "+o.Key, o.state(), "bind pending")
		checkEqual(t, "action of accepted "+o.Key, o.Action, "set")
		checkEqual(t, "secret_ref of accepted "+o.Key, o.SecretRef, secret.Ref(id, o.Key))
	}
	checkEqual(t, "first accepted key", accepted[0].Key, "FIRST_TOKEN")
	if a := d.call(t, d.Ready.APIKey, http.MethodGet, "/agents/"+id, ""); a.body["dashboard_warming"] != true &&
		d.secretsText(t, id) != live {
		t.Errorf("the agent is not warming although its secrets are not live: %s", a.text)
	}
	d.awaitOperation(t, id, accepted[0], succeeded)
	d.awaitOperation(t, id, accepted[1], succeeded)
	checkEqual(t, "secrets", d.secretsText(t, id), live)
	checkEqual(t, "rollouts for two secrets", d.countRollouts(t, id)-before, int64(1))
	d.checkEnv(t, id, "FIRST_TOKEN", "one")
	d.checkEnv(t, id, "PLAIN_LOOKING", "two")
	a := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "")
	env, _ := a.body["env_vars"].(map[string]any)
	checkEqual(t, "env_vars.PLAIN_LOOKING", env["PLAIN_LOOKING"], "gsm")
	checkEqual(t, "dashboard_warming afterwards", a.body["dashboard_warming"], false)
}

// checkSecretsAreReplacedAndDeleted replaces one secret, deletes another and one that does not exist. It returns a
// finished operation.
func checkSecretsAreReplacedAndDeleted(t *testing.T, d deployment, id string) operation {
	t.Helper()
	accepted := d.putSecrets(t, id, `{"FIRST_TOKEN": "one more", "PLAIN_LOOKING": null, "NEVER_WAS": null}`)
	if len(accepted) != 2 {
		t.Fatalf("accepted operations = %+v, want two", accepted)
	}
	checkEqual(t, "action of the second operation", accepted[1].Action, "delete")
	d.awaitOperation(t, id, accepted[0], succeeded)
	d.awaitOperation(t, id, accepted[1], succeeded)
	d.checkEnv(t, id, "FIRST_TOKEN", "one more")
	d.checkEnv(t, id, "PLAIN_LOOKING", "")
	d.secretStore.checkVersions(t, id, "FIRST_TOKEN", versions{added: 2, enabled: 1})
	d.secretStore.checkVersions(t, id, "PLAIN_LOOKING", versions{added: 1, enabled: 0})
	checkEqual(t, "secrets", d.secretsText(t, id), "FIRST_TOKEN 2/2 true;")
	return accepted[0]
}

// testSecretsOfStoppedAgent sets a secret of a stopped agent. Its operation waits before the rollout; the next start
// makes the secret live.
func testSecretsOfStoppedAgent(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "parked", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/stop", "")
	o := d.putSecrets(t, id, `{"TOKEN": "late"}`)[0]
	d.awaitOperation(t, id, o, "rollout pending agent_not_running")
	checkEqual(t, "secrets while stopped", d.secretsText(t, id), "TOKEN 1/- false;")
	a := d.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
	checkEqual(t, "code of reconciling while stopped", a.body["code"], "agent_state_conflict")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	d.awaitOperation(t, id, o, succeeded)
	d.checkEnv(t, id, "TOKEN", "late")
	checkEqual(t, "secrets after the start", d.secretsText(t, id), "TOKEN 1/1 true;")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}
