package cloud_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"

	"agents.example/controlplane/emulators/rpc"
)

// failFirst injects a fault into the first call of a method.
func failFirst(method string, fault rpc.Fault) rpc.Hook {
	var first sync.Once
	return func(called, _ string) (f rpc.Fault) {
		if called == method {
			first.Do(func() { f = fault })
		}
		return f
	}
}

// failEach injects an error before every call of a method.
func failEach(method string, code codes.Code) rpc.Hook {
	return func(called, _ string) rpc.Fault {
		if called == method {
			return rpc.Fault{Before: status.Error(code, "fault of the test")}
		}
		return rpc.Fault{}
	}
}

// holdFirst makes the first call of a method wait until release is called. held is closed when the call has arrived.
func holdFirst(method string) (hook rpc.Hook, held <-chan struct{}, release func()) {
	hold, arrived := make(chan struct{}), make(chan struct{})
	var first sync.Once
	return func(called, _ string) rpc.Fault {
		if called == method {
			first.Do(func() { close(arrived); <-hold })
		}
		return rpc.Fault{}
	}, arrived, func() { close(hold) }
}

// reconcile asks for an operation to be reconciled.
func (d deployment) reconcile(t *testing.T, id string, o operation) answer {
	t.Helper()
	return d.call(t, d.Ready.APIKey, http.MethodPost, "/agents/"+id+"/secret-operations/"+o.ID+"/reconcile", "")
}

// failPut sets a secret while the secret store fails, and returns the operation, which is at the store stage with a
// status. It is pending while it is unknown whether the value was stored.
func (d deployment) failPut(t *testing.T, id, key string, fault rpc.Fault, status, code string) operation {
	t.Helper()
	d.secretStore.inject(id, failFirst("AddSecretVersion", fault))
	a := d.must(t, http.StatusServiceUnavailable, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"`+key+
		`": "value"}}`)
	d.secretStore.inject(id, nil)
	checkEqual(t, "code of a failed write", a.body["code"], code)
	if a.header.Get("Retry-After") == "" {
		t.Error("a failed write has no Retry-After")
	}
	o := d.operations(t, id)[0]
	checkEqual(t, "state of a failed write", o.state(), "store "+status+" "+code)
	return o
}

// testLostSecretStoreResponses makes the secret store add a version and lose the response, or refuse it. Reconciling
// adopts the version that was added, and adds none.
func testLostSecretStoreResponses(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "lost", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"TOKEN": "first"}}`)
	lost := d.failPut(t, id, "TOKEN", rpc.Fault{After: status.Error(codes.Unavailable, "lost")}, "pending",
		"secret_store_unavailable")
	a := d.reconcile(t, id, lost)
	checkRefusal(t, "reconciling a write that may still land", a, http.StatusConflict, "operation_in_progress")
	d.await(t, id, "reconciled", func(answer) bool {
		a = d.reconcile(t, id, lost)
		return a.status != http.StatusConflict
	})
	checkEqual(t, "status code of reconciling a lost response", a.status, http.StatusOK)
	checkEqual(t, "status of reconciling a lost response", a.body["status"], "pending")
	checkEqual(t, "stage of reconciling a lost response", a.body["stage"], "bind")
	d.awaitOperation(t, id, lost, succeeded)
	d.secretStore.checkVersions(t, id, "TOKEN", versions{added: 2, enabled: 1})

	denied := d.failPut(t, id, "OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.PermissionDenied, "no")},
		"failed", "secret_store_denied")
	a = d.reconcile(t, id, denied)
	checkRefusal(t, "reconciling a denied write", a, http.StatusBadRequest, "secret_value_unavailable")
	over := d.failPut(t, id, "OTHER_TOKEN", rpc.Fault{Before: status.Error(codes.ResourceExhausted, "no")},
		"failed", "secret_quota_exceeded")
	a = d.reconcile(t, id, denied)
	checkRefusal(t, "reconciling a superseded operation", a, http.StatusConflict, "secret_operation_terminal")
	again := d.putSecrets(t, id, `{"OTHER_TOKEN": "there"}`)
	d.awaitOperation(t, id, again[0], succeeded)
	d.awaitOperation(t, id, over, "store superseded")
	checkEqual(t, "versions added to OTHER_TOKEN", d.secretStore.countVersions(id, "OTHER_TOKEN").added, 1)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testConcurrentSecretWrites writes one secret from several clients. Each adds one version, and the last one is live.
func testConcurrentSecretWrites(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "turns", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	const clients = 4
	var writes sync.WaitGroup
	for i := range clients {
		writes.Go(func() {
			a := d.repeat(t, http.StatusAccepted, http.MethodPut, "/agents/"+id+"/secrets",
				fmt.Sprintf(`{"secrets": {"TOKEN": "value %d"}}`, i))
			checkEqual(t, "status of a concurrent write", a.status, http.StatusAccepted)
		})
	}
	writes.Wait()
	d.await(t, id, "in sync",
		func(answer) bool { return d.secretsText(t, id) == fmt.Sprintf("TOKEN %d/%d true;", clients, clients) })
	d.await(t, id, "left with one enabled version", func(answer) bool {
		return d.secretStore.countVersions(id, "TOKEN") == versions{added: clients, enabled: 1}
	})
	for _, o := range d.operations(t, id) {
		if o.Status != "succeeded" && o.Status != "superseded" {
			d.awaitOperation(t, id, o, succeeded)
		}
	}
	checkSlowWrite(t, d, id)
	checkEqual(t, "versions added", d.secretStore.countVersions(id, "TOKEN").added, clients+1)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// checkSlowWrite repeats and reconciles a write that is still adding its version. Both are refused until it has
// finished.
func checkSlowWrite(t *testing.T, d deployment, id string) {
	t.Helper()
	hook, held, release := holdFirst("AddSecretVersion")
	d.secretStore.inject(id, hook)
	write := func() answer {
		return d.send(t, http.MethodPut, "/agents/"+id+"/secrets", `{"secrets": {"TOKEN": "slow"}}`,
			http.Header{"Authorization": {"Bearer " + d.Ready.APIKey}, "Idempotency-Key": {"slow-" + id}})
	}
	var slow answer
	var writing sync.WaitGroup
	writing.Go(func() { slow = write() })
	<-held
	repeated := write()
	checkRefusal(t, "a repeat of a write that goes on", repeated, http.StatusConflict, "idempotency_in_progress")
	if repeated.header.Get("Retry-After") == "" {
		t.Error("a repeat of a write that goes on has no Retry-After")
	}
	o := d.operations(t, id)[0]
	checkEqual(t, "state of a write that goes on", o.state(), "store pending")
	a := d.reconcile(t, id, o)
	checkRefusal(t, "reconciling a write that goes on", a, http.StatusConflict, "operation_in_progress")
	release()
	writing.Wait()
	d.secretStore.inject(id, nil)
	d.awaitOperation(t, id, o, succeeded)
	d.checkEnv(t, id, "TOKEN", "slow")
	checkEqual(t, "status of the slow write", slow.status, http.StatusAccepted)
	repeated = write()
	checkEqual(t, "body of a repeat of the finished write", repeated.text, slow.text)
	checkEqual(t, "Idempotency-Replayed", repeated.header.Get("Idempotency-Replayed"), "true")
}

// testSecretDeliveryFailures keeps a secret from its agent in three ways. Each time the operation shows why, and the
// secret arrives, in one version, when the cause is gone. An agent whose namespace is gone lost its volume, too: only
// the client's start makes a new one.
func testSecretDeliveryFailures(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "hindered", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")

	d.secretStore.inject(id, failEach("AccessSecretVersion", codes.PermissionDenied))
	denied := d.putSecrets(t, id, `{"TOKEN": "one"}`)[0]
	d.awaitOperation(t, id, denied, "sync pending secret_store_denied")
	var requests sync.WaitGroup
	for range 4 {
		requests.Go(func() {
			if a := d.reconcile(t, id, denied); a.status != http.StatusOK {
				checkEqual(t, "code of a concurrent reconciliation", a.body["code"], "operation_in_progress")
			}
		})
	}
	requests.Wait()
	d.secretStore.inject(id, nil)
	d.awaitOperation(t, id, denied, succeeded)
	d.checkEnv(t, id, "TOKEN", "one")

	// If the pod crashed before a worker replaced it, the agent could go to error first.
	injectPodFault(t, d, id, cluster.NotReady)
	crashes := d.putSecrets(t, id, `{"TOKEN": "two"}`)[0]
	d.await(t, id, "with an operation at its rollout", func(answer) bool {
		return d.operations(t, id)[0].Stage == "rollout"
	})
	injectPodFault(t, d, id, cluster.CrashLoop)
	d.awaitOperation(t, id, crashes, "rollout failed pod_crash_loop")
	checkEqual(t, "secrets of a crashing agent", d.secretsText(t, id), "TOKEN 2/- false;")
	injectPodFault(t, d, id, "")
	for range 2 {
		if a := d.reconcile(t, id, crashes); a.status != http.StatusOK && a.status != http.StatusConflict {
			t.Errorf("reconciling a failed rollout: got %d %s, want 200 or 409", a.status, a.text)
		}
	}
	d.awaitOperation(t, id, crashes, succeeded)
	d.awaitStatus(t, id, "running")
	d.checkEnv(t, id, "TOKEN", "two")

	if err := d.cluster.Namespaces().Delete(t.Context(), "agent-"+id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	homeless := d.putSecrets(t, id, `{"TOKEN": "three"}`)[0]
	d.awaitOperation(t, id, homeless, "sync failed namespace_missing")
	checkFailure(t, d.awaitStatus(t, id, "error"), "namespace_missing")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	d.awaitStatus(t, id, "running")
	d.awaitOperation(t, id, homeless, succeeded)
	d.checkEnv(t, id, "TOKEN", "three")
	d.secretStore.checkVersions(t, id, "TOKEN", versions{added: 3, enabled: 1})
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testAgentWaitsForItsSecrets creates an agent while the secret store refuses its secret. The agent shows that, and
// does not start without the secret.
func testAgentWaitsForItsSecrets(t *testing.T, d deployment) {
	const name = "-env-AWAITED_TOKEN" // the agent's ID is not known yet
	d.secretStore.inject(name, failEach("AddSecretVersion", codes.PermissionDenied))
	id := d.create(t, `{"name": "awaited", "resource_plan": "hobby",
		"env_vars": {"AWAITED_TOKEN": "value", "MODE": "fast"}}`)
	d.await(t, id, "waiting for its secret", func(a answer) bool {
		config, _ := a.body["config"].(map[string]any)
		failure, _ := config["error"].(map[string]any)
		return a.body["status"] == "pending" && failure["code"] == "secret_value_unavailable" &&
			failure["stage"] == "secrets"
	})
	operations := d.operations(t, id)
	if len(operations) != 1 {
		t.Fatalf("operations = %+v, want one", operations)
	}
	checkEqual(t, "state of the operation", operations[0].state(), "store failed secret_store_denied")
	d.secretStore.inject(name, nil)
	d.putSecrets(t, id, `{"AWAITED_TOKEN": "value"}`)
	d.awaitStatus(t, id, "running")
	d.checkEnv(t, id, "AWAITED_TOKEN", "value")
	d.checkEnv(t, id, "MODE", "fast")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}
