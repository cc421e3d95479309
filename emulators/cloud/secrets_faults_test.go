package cloud_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/rpc"
)

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

// lostAnswer has the store add a version and its answer be lost, or refuse it. Reconciling adopts what is there, and
// adds nothing.
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
		a := w.must(t, http.StatusServiceUnavailable, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"`+key+
			`": "value"}}`)
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
	denied := failing("OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")},
		"secret_store_denied")
	if a := reconcile(denied, http.StatusBadRequest); a.body["code"] != "secret_value_unavailable" {
		t.Errorf("reconciled: %s", a.text)
	}
	over := failing("OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.ResourceExhausted, "no")},
		"secret_quota_exceeded")
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
			a := w.call(t, w.Ready.APIKey, http.MethodPut, "/agents/"+id+"/secrets",
				fmt.Sprintf(`{"secrets": {"TOKEN": "value %d"}}`, i))
			if a.status != http.StatusAccepted {
				t.Errorf("answered %s", a.text)
			}
		})
	}
	all.Wait()
	w.await(t, id, "in sync",
		func(answer) bool { return w.secretsOf(t, id) == fmt.Sprintf("TOKEN %d/%d true;", clients, clients) })
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
	keyed := func() answer {
		return w.send(t, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"TOKEN": "slow"}}`,
			http.Header{"Authorization": {"Bearer " + w.Ready.APIKey}, "Idempotency-Key": {"slow-" + id}})
	}
	var slow answer
	all.Go(func() { slow = keyed() })
	<-held
	if a := keyed(); a.status != http.StatusConflict || a.body["code"] != "idempotency_in_progress" ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("a repeat meanwhile: %d %s", a.status, a.text)
	}
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
	if a := keyed(); slow.status != http.StatusAccepted || a.text != slow.text ||
		a.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("a repeat afterwards: %d %s\nfirst %d %s", a.status, a.text, slow.status, slow.text)
	}
	if ever, _ := w.vault.versions(t, id, "TOKEN"); ever != clients+1 {
		t.Errorf("%d versions of %d operations", ever, clients+1)
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// hindered keeps a secret from its agent in every way but one: what is said about it is true, and in the end it is
// there, with one version.
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
		return a.body["status"] == "pending" && failure["code"] == "secret_value_unavailable" &&
			failure["stage"] == "secrets"
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
