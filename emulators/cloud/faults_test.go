package cloud_test

import (
	"fmt"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/shared/agent"
)

// injectPodFault makes all pods of an agent suffer a fault, even before its namespace exists; "" heals them.
func injectPodFault(t *testing.T, d deployment, id string, fault cluster.Fault) {
	t.Helper()
	_, err := d.cluster.ConfigMaps(cluster.FaultsNamespace).Patch(t.Context(), cluster.FaultsConfigMap,
		types.MergePatchType, cluster.FaultPatch(agent.Namespace(id), fault), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// testCrashEndsInError makes an agent crash, at its first start and while it runs. Both times it ends in error with a
// reason, and starts when the reason is gone.
func testCrashEndsInError(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "broken", "resource_plan": "hobby"}`)
	injectPodFault(t, d, id, cluster.CrashLoop)
	checkFailure(t, d.awaitStatus(t, id, "error"), "pod_crash_loop")
	injectPodFault(t, d, id, "")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/start", "")
	d.awaitStatus(t, id, "running")

	injectPodFault(t, d, id, cluster.OutOfMemory)
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	checkFailure(t, d.awaitStatus(t, id, "error"), "out_of_memory")
	injectPodFault(t, d, id, "")
	d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/restart", "")
	d.awaitStatus(t, id, "running")
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testRecoveryFromCrash makes a running agent crash. It goes to error with a reason, and without any request back to
// running when the reason is gone.
func testRecoveryFromCrash(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "recovers", "resource_plan": "hobby"}`)
	d.awaitStatus(t, id, "running")
	injectPodFault(t, d, id, cluster.CrashLoop)
	checkFailure(t, d.awaitStatus(t, id, "error"), "pod_crash_loop")
	injectPodFault(t, d, id, "")
	a := d.awaitStatus(t, id, "running")
	config, _ := a.body["config"].(map[string]any)
	checkEqual(t, "config.error of a recovered agent", config["error"], nil)
	checkEqual(t, "error_message of a recovered agent", a.body["error_message"], nil)
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// testSandboxMigration moves an agent into the sandbox and out again, with its volume. Then the cluster loses its
// sandbox: the agent stays outside and shows why.
func testSandboxMigration(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "sandboxed", "resource_plan": "hobby"}`)
	path, namespace := "/agents/"+id, "agent-"+id
	d.awaitStatus(t, id, "running")
	volume := func() types.UID {
		t.Helper()
		claims, err := d.cluster.PersistentVolumeClaims(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(claims.Items) != 1 {
			t.Fatalf("volume claims = %v, %v; want one", claims, err)
		}
		return claims.Items[0].UID
	}
	first := volume()
	migrate := func(enabled bool, want bool) answer {
		t.Helper()
		a := d.must(t, http.StatusOK, http.MethodPost, path+"/migrate-sandbox", fmt.Sprintf(`{"enabled": %t}`, enabled))
		checkEqual(t, "status during the migration", a.body["status"], "running")
		checkEqual(t, "dashboard_warming during the migration", a.body["dashboard_warming"], true)
		a = d.await(t, id, "migrated", func(a answer) bool { return a.body["dashboard_warming"] == false })
		config, _ := a.body["config"].(map[string]any)
		checkEqual(t, fmt.Sprintf("sandbox_enabled after enabled=%t", enabled), config["sandbox_enabled"], want)
		checkEqual(t, "status after the migration", a.body["status"], "running")
		pods, err := d.cluster.Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) != 1 {
			t.Fatalf("pods = %v, %v; want one", pods, err)
		}
		checkEqual(t, "pod has a runtime class", pods.Items[0].Spec.RuntimeClassName != nil, want)
		return a
	}
	migrate(true, true)
	migrate(false, false)
	if err := d.cluster.RuntimeClasses().Delete(t.Context(), "gvisor", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, migrate(true, false), "sandbox_unschedulable")
	checkEqual(t, "volume claim after the migrations", volume(), first)
	d.must(t, http.StatusAccepted, http.MethodDelete, path, "")
}

// checkFailure checks why an agent failed.
func checkFailure(t *testing.T, a answer, code string) {
	t.Helper()
	config, _ := a.body["config"].(map[string]any)
	failure, _ := config["error"].(map[string]any)
	message, _ := a.body["error_message"].(string)
	checkEqual(t, "config.error.code", failure["code"], code)
	if failure["message"] != message || message == "" {
		t.Errorf("config.error.message = %v, error_message = %q; want the same text", failure["message"], message)
	}
}

// testWorkerKilledWhileProvisioning kills the worker at every stage of provisioning. The agent still runs, with one
// stateful set and one version of its credentials.
func testWorkerKilledWhileProvisioning(t *testing.T, d deployment) {
	for _, stage := range []string{"namespace", "policy", "identity", "storage", "runtime", "route", "ready"} {
		t.Run(stage, func(t *testing.T) {
			id := d.create(t, `{"name": "survivor", "resource_plan": "hobby"}`)
			if stage == "ready" {
				injectPodFault(t, d, id, cluster.NotReady)
			}
			d.await(t, id, "at "+stage, func(a answer) bool { return stages(a)[stage] != "pending" })
			if err := d.Functions.Kill("ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			injectPodFault(t, d, id, "")
			if err := d.Functions.Restart(t.Context(), "ReconcileAgent"); err != nil {
				t.Fatal(err)
			}
			d.awaitStatus(t, id, "running")
			sets, err := d.cluster.StatefulSets("agent-"+id).List(t.Context(), metav1.ListOptions{})
			if err != nil || len(sets.Items) != 1 {
				t.Errorf("stateful sets = %v, %v; want one", sets, err)
			}
			credentials := d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
			checkEqual(t, "credential_version", credentials.body["credential_version"], 1.0)
			d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
		})
	}
}
