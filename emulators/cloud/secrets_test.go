package cloud_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/rpc"
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
	return operationsIn(t, w.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": `+secrets+`}`))
}

// operations lists an agent's operations, the newest first.
func (w world) operations(t *testing.T, id string) []operation {
	t.Helper()
	var list []operation
	if err := json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secret-operations", "").text), &list); err != nil {
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
	if err := json.Unmarshal([]byte(w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"/secrets", "").text), &list); err != nil {
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
	if len(made) != 2 || made[0].is() != "bind pending" || made[1].is() != "bind pending" || made[0].Key != "FIRST_TOKEN" ||
		made[0].SecretRef != secret.Ref(id, "FIRST_TOKEN") || made[0].Action != "set" {
		t.Fatalf("accepted %+v", made)
	}
	if a := w.call(t, w.Ready.APIKey, http.MethodGet, "/agents/"+id, ""); a.body["dashboard_warming"] != true && w.secretsOf(t, id) != "FIRST_TOKEN 1/1 true;PLAIN_LOOKING 1/1 true;" {
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
	if env, _ := a.body["env_vars"].(map[string]any); env["PLAIN_LOOKING"] != "gsm" || a.body["dashboard_warming"] != false {
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
	if a := w.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+made[0].ID+"/reconcile", ""); a.body["code"] != "secret_operation_terminal" {
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

// once makes the first call of a method go wrong.
func once(method string, fault rpc.Fault) rpc.Hook {
	var first sync.Once
	return func(called, _ string) (f rpc.Fault) {
		if called == method {
			first.Do(func() { f = fault })
		}
		return f
	}
}

// lostAnswer has the store add a version and its answer be lost, or refuse it. Reconciling adopts what is there, and adds nothing.
func lostAnswer(t *testing.T, w world) {
	id := w.create(t, `{"name": "lost", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	reconcile := func(o operation, want int) answer {
		t.Helper()
		return w.must(t, want, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
	}
	failing := func(key string, fault rpc.Fault, code string) operation {
		t.Helper()
		w.vault.breaks(id, once("AddSecretVersion", fault))
		a := w.must(t, http.StatusServiceUnavailable, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"`+key+`": "value"}}`)
		w.vault.breaks(id, nil)
		if a.body["code"] != code || a.header.Get("Retry-After") == "" {
			t.Errorf("answered %s", a.text)
		}
		o := w.operations(t, id)[0]
		if o.is() != "store failed "+code {
			t.Errorf("the operation is %s", o.is())
		}
		return o
	}
	w.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"TOKEN": "first"}}`)
	lost := failing("TOKEN", rpc.Fault{After: status.Error(codes.Unavailable, "lost")}, "secret_store_unavailable")
	if a := reconcile(lost, http.StatusOK); a.body["status"] != "pending" || a.body["stage"] != "bind" {
		t.Errorf("reconciled: %s", a.text)
	}
	w.until(t, id, lost, succeeded)
	if ever, there := w.vault.versions(t, id, "TOKEN"); ever != 2 || there != 1 {
		t.Errorf("there were %d versions of two operations, and are %d", ever, there)
	}
	denied := failing("OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")}, "secret_store_denied")
	if a := reconcile(denied, http.StatusBadRequest); a.body["code"] != "secret_value_unavailable" {
		t.Errorf("reconciled: %s", a.text)
	}
	over := failing("OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.ResourceExhausted, "no")}, "secret_quota_exceeded")
	if a := reconcile(denied, http.StatusConflict); a.body["code"] != "secret_operation_terminal" {
		t.Errorf("reconciled what was overtaken: %s", a.text)
	}
	again := w.put(t, id, `{"OTHER_TOKEN": "there"}`)
	w.until(t, id, again[0], succeeded)
	w.until(t, id, over, "store superseded")
	if ever, _ := w.vault.versions(t, id, "OTHER_TOKEN"); ever != 1 {
		t.Errorf("%d versions", ever)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// takeTurns sends many requests for one key at once: each adds its own version, and the last is live.
func takeTurns(t *testing.T, w world) {
	id := w.create(t, `{"name": "turns", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	const clients = 4
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			a := w.call(t, w.Ready.APIKey, http.MethodPut, "/agents/"+id+"/secrets", fmt.Sprintf(`{"secrets": {"TOKEN": "value %d"}}`, i))
			if a.status != http.StatusAccepted {
				t.Errorf("answered %s", a.text)
			}
		})
	}
	all.Wait()
	w.await(t, id, "in sync", func(answer) bool { return w.secretsOf(t, id) == fmt.Sprintf("TOKEN %d/%d true;", clients, clients) })
	w.await(t, id, "tidy", func(answer) bool {
		ever, there := w.vault.versions(t, id, "TOKEN")
		return ever == clients && there == 1
	})
	for _, o := range w.operations(t, id) {
		if o.Status != "succeeded" && o.Status != "superseded" {
			w.until(t, id, o, succeeded)
		}
	}
	// While one request is adding, reconciling its operation is refused.
	hold, held := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w.vault.breaks(id, func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			first.Do(func() { close(held); <-hold })
		}
		return rpc.Fault{}
	})
	all.Go(func() { w.put(t, id, `{"TOKEN": "slow"}`) })
	<-held
	o := w.operations(t, id)[0]
	a := w.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
	if a.body["code"] != "operation_in_progress" || o.is() != "store pending" {
		t.Errorf("reconciled %s: %s", o.is(), a.text)
	}
	close(hold)
	all.Wait()
	w.vault.breaks(id, nil)
	w.until(t, id, o, succeeded)
	w.env(t, id, "TOKEN", "slow")
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
	a := w.must(t, http.StatusConflict, http.MethodPost, "/agents/"+id+"/secret-operations/"+made[0].ID+"/reconcile", "")
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

// hindered keeps a secret from its agent in every way but one: what is said about it is true, and in the end it is there, with one version.
func hindered(t *testing.T, w world) {
	id := w.create(t, `{"name": "hindered", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	reconcile := func(o operation) answer {
		return w.call(t, w.Ready.APIKey, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
	}
	w.vault.breaks(id, func(method, _ string) rpc.Fault {
		if method == "AccessSecretVersion" {
			return rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")}
		}
		return rpc.Fault{}
	})
	denied := w.put(t, id, `{"TOKEN": "one"}`)[0]
	w.until(t, id, denied, "sync pending secret_store_denied")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if a := reconcile(denied); a.status != http.StatusOK && a.body["code"] != "operation_in_progress" {
				t.Errorf("reconciled: %d %s", a.status, a.text)
			}
		})
	}
	all.Wait()
	w.vault.breaks(id, nil)
	w.until(t, id, denied, succeeded)
	w.env(t, id, "TOKEN", "one")

	breakPods(t, w, id, "crash-loop")
	crashes := w.put(t, id, `{"TOKEN": "two"}`)[0]
	w.until(t, id, crashes, "rollout failed pod_crash_loop")
	if got := w.secretsOf(t, id); got != "TOKEN 2/- false;" {
		t.Errorf("secrets %s of an agent that crashes", got)
	}
	breakPods(t, w, id, "")
	for range 2 {
		if a := reconcile(crashes); a.status != http.StatusOK && a.status != http.StatusConflict {
			t.Errorf("reconciled: %d %s", a.status, a.text)
		}
	}
	w.until(t, id, crashes, succeeded)
	w.awaitStatus(t, id, "running")
	w.env(t, id, "TOKEN", "two")

	if err := w.cluster.CoreV1().Namespaces().Delete(t.Context(), "agent-"+id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	homeless := w.put(t, id, `{"TOKEN": "three"}`)[0]
	w.await(t, id, "told that its namespace is gone, or over it", func(answer) bool {
		o := w.operations(t, id)[0]
		return o.ErrorCode != nil && *o.ErrorCode == "namespace_missing" || o.is() == succeeded
	})
	w.until(t, id, homeless, succeeded)
	w.env(t, id, "TOKEN", "three")
	if ever, there := w.vault.versions(t, id, "TOKEN"); ever != 3 || there != 1 {
		t.Errorf("there were %d versions of three operations, and are %d", ever, there)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// awaited creates an agent while the secret store refuses its secret: the agent says so and does not start without.
func awaited(t *testing.T, w world) {
	w.vault.breaks("-env-AWAITED_TOKEN", func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			return rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")}
		}
		return rpc.Fault{}
	})
	id := w.create(t, `{"name": "awaited", "resource_plan": "hobby", "env_vars": {"AWAITED_TOKEN": "value", "MODE": "fast"}}`)
	w.await(t, id, "waiting for its secret", func(a answer) bool {
		config, _ := a.body["config"].(map[string]any)
		failure, _ := config["error"].(map[string]any)
		return a.body["status"] == "pending" && failure["code"] == "secret_value_unavailable" && failure["stage"] == "secrets"
	})
	if o := w.operations(t, id); len(o) != 1 || o[0].is() != "store failed secret_store_denied" {
		t.Errorf("operations %+v", o)
	}
	w.vault.breaks("-env-AWAITED_TOKEN", nil)
	w.put(t, id, `{"AWAITED_TOKEN": "value"}`)
	w.awaitStatus(t, id, "running")
	w.env(t, id, "AWAITED_TOKEN", "value")
	w.env(t, id, "MODE", "fast")
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// deletedMeanwhile deletes an agent while a value is being added: nothing of it stays in the secret store.
func deletedMeanwhile(t *testing.T, w world) {
	id := w.create(t, `{"name": "deleted", "resource_plan": "hobby", "env_vars": {"OLD_TOKEN": "old"}}`)
	w.awaitStatus(t, id, "running")
	hold, held := make(chan struct{}), make(chan struct{})
	var first sync.Once
	w.vault.breaks(id, func(method, _ string) rpc.Fault {
		if method == "AddSecretVersion" {
			first.Do(func() { close(held); <-hold })
		}
		return rpc.Fault{}
	})
	var put sync.WaitGroup
	put.Go(func() {
		a := w.call(t, w.Ready.APIKey, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"NEW_TOKEN": "new"}}`)
		if a.status != http.StatusConflict && a.status != http.StatusNotFound {
			t.Errorf("a value for a deleted agent: %d %s", a.status, a.text)
		}
	})
	<-held
	o := w.operations(t, id)[0]
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
	w.until(t, id, o, "store canceled")
	began := time.Now()
	close(hold)
	put.Wait()
	w.vault.breaks(id, nil)
	w.await(t, id, "gone", func(a answer) bool { return a.status == http.StatusNotFound })
	if n := w.vault.secrets(t, id); n != 0 {
		t.Errorf("%d secrets are left after %v", n, time.Since(began))
	}
}

// killedAtSecrets ends the worker with SIGKILL at every stage of an operation. However it goes on, there is one version for it.
func killedAtSecrets(t *testing.T, w world) {
	for stage, method := range map[string]string{"sync": "AccessSecretVersion", "rollout": "", "complete": "DestroySecretVersion", "destroy": "DestroySecretVersion"} {
		t.Run(stage, func(t *testing.T) {
			id := w.create(t, `{"name": "survivor", "resource_plan": "hobby", "env_vars": {"TOKEN": "first"}}`)
			w.awaitStatus(t, id, "running")
			w.await(t, id, "complete", func(answer) bool { return w.operations(t, id)[0].is() == succeeded })
			hold := make(chan struct{})
			w.vault.breaks(id, func(called, _ string) rpc.Fault {
				if called == method {
					<-hold
				}
				return rpc.Fault{}
			})
			if stage == "rollout" {
				breakPods(t, w, id, "not-ready")
			}
			value := `"second"`
			if stage == "destroy" {
				value = "null"
			}
			o := w.put(t, id, `{"TOKEN": `+value+`}`)[0]
			w.until(t, id, o, stage+" running")
			if err := w.Functions.Kill("ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			close(hold)
			w.vault.breaks(id, nil)
			breakPods(t, w, id, "")
			if err := w.Functions.Restart(t.Context(), "ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a := w.call(t, w.Ready.APIKey, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
				if a.status != http.StatusOK && a.status != http.StatusConflict {
					t.Errorf("reconciled: %s", a.text)
				}
			}
			w.until(t, id, o, succeeded)
			want := [2]int{2, 1}
			if stage == "destroy" {
				want = [2]int{1, 0}
			}
			if ever, there := w.vault.versions(t, id, "TOKEN"); ever != want[0] || there != want[1] {
				t.Errorf("there were %d versions and are %d, want %v", ever, there, want)
			}
			w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		})
	}
}
