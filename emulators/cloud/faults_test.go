package cloud_test

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
)

// breakPods has all pods of an agent suffer a fault, from before its namespace exists.
func breakPods(t *testing.T, w world, id string, fault cluster.Fault) {
	t.Helper()
	patch := fmt.Sprintf(`{"data": {"agent-%s": %q}}`, id, fault)
	if fault == "" {
		patch = fmt.Sprintf(`{"data": {"agent-%s": null}}`, id)
	}
	_, err := w.cluster.CoreV1().ConfigMaps(cluster.FaultsNamespace).Patch(t.Context(), cluster.FaultsConfigMap,
		types.MergePatchType,
		[]byte(patch), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// fails has an agent crash: it ends in error with a reason, and starts when the reason is gone. Then it breaks while it
// runs.
func fails(t *testing.T, w world) {
	id := w.create(t, `{"name": "broken", "resource_plan": "hobby"}`)
	breakPods(t, w, id, cluster.CrashLoop)
	wantFailure(t, w.awaitStatus(t, id, "error"), "pod_crash_loop")
	breakPods(t, w, id, "")
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	w.awaitStatus(t, id, "running")

	breakPods(t, w, id, cluster.OutOfMemory)
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	wantFailure(t, w.awaitStatus(t, id, "error"), "out_of_memory")
	breakPods(t, w, id, "")
	w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	w.awaitStatus(t, id, "running")
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// mends has a running agent break with nobody at it: it goes to error with a reason, and back to running by itself when
// the reason is gone.
func mends(t *testing.T, w world) {
	id := w.create(t, `{"name": "mends", "resource_plan": "hobby"}`)
	w.awaitStatus(t, id, "running")
	breakPods(t, w, id, cluster.CrashLoop)
	wantFailure(t, w.awaitStatus(t, id, "error"), "pod_crash_loop")
	breakPods(t, w, id, "")
	a := w.awaitStatus(t, id, "running")
	if config, _ := a.body["config"].(map[string]any); config["error"] != nil || a.body["error_message"] != nil {
		t.Errorf("an agent that mended still has the error %v, %v", config["error"], a.body["error_message"])
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// sandboxed moves an agent into the sandbox and out again, with its volume. On a cluster that has none any more it runs
// on as before, and says why.
func sandboxed(t *testing.T, w world) {
	id := w.create(t, `{"name": "sandboxed", "resource_plan": "hobby"}`)
	path, namespace := "/agents/"+id, "agent-"+id
	w.awaitStatus(t, id, "running")
	volume := func() types.UID {
		t.Helper()
		claims, err := w.cluster.CoreV1().PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(claims.Items) != 1 {
			t.Fatalf("claims %v: %v", claims, err)
		}
		return claims.Items[0].UID
	}
	first := volume()
	migrate := func(enabled bool, want bool) answer {
		t.Helper()
		a := w.must(t, http.StatusOK, http.MethodPost, path+"/migrate-sandbox", fmt.Sprintf(`{"enabled": %t}`, enabled))
		if a.body["status"] != "running" || a.body["dashboard_warming"] != true {
			t.Errorf("migrate-sandbox: %s", a.text)
		}
		a = w.await(t, id, "as it is wanted", func(a answer) bool { return a.body["dashboard_warming"] == false })
		config, _ := a.body["config"].(map[string]any)
		if config["sandbox_enabled"] != want || a.body["status"] != "running" {
			t.Errorf("after a move to %t: %s", enabled, a.text)
		}
		pods, err := w.cluster.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 || (pods.Items[0].Spec.RuntimeClassName != nil) != want {
			t.Errorf("the pod of an agent that is sandboxed (%t): %v, %v", want, pods, err)
		}
		return a
	}
	migrate(true, true)
	migrate(false, false)
	if err := w.cluster.NodeV1().RuntimeClasses().Delete(t.Context(), "gvisor", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	wantFailure(t, migrate(true, false), "sandbox_unschedulable")
	if volume() != first {
		t.Error("the volume is another one")
	}
	w.must(t, http.StatusAccepted, http.MethodDelete, path, "")
}

func wantFailure(t *testing.T, a answer, code string) {
	t.Helper()
	config, _ := a.body["config"].(map[string]any)
	failure, _ := config["error"].(map[string]any)
	message, _ := a.body["error_message"].(string)
	if failure["code"] != code || failure["message"] != message || message == "" {
		t.Errorf("error %v, error_message %q, want code %s", failure, message, code)
	}
}

// killed ends the worker with SIGKILL at every stage of provisioning, and has the agent run all the same: one
// namespace, one set of credentials, nothing twice.
func killed(t *testing.T, w world) {
	for _, stage := range []string{"namespace", "policy", "identity", "storage", "runtime", "route", "ready"} {
		t.Run(stage, func(t *testing.T) {
			id := w.create(t, `{"name": "survivor", "resource_plan": "hobby"}`)
			if stage == "ready" {
				breakPods(t, w, id, cluster.NotReady)
			}
			w.await(t, id, "at "+stage, func(a answer) bool { return stages(a)[stage] != "pending" })
			if err := w.Functions.Kill("ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			breakPods(t, w, id, "")
			if err := w.Functions.Restart(t.Context(), "ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			w.awaitStatus(t, id, "running")
			sets, err := w.cluster.AppsV1().StatefulSets("agent-"+id).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(sets.Items) != 1 {
				t.Errorf("stateful sets %v: %v", sets, err)
			}
			credentials := w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
			if credentials.body["credential_version"] != 1.0 {
				t.Errorf("credentials have version %v", credentials.body["credential_version"])
			}
			w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		})
	}
}
