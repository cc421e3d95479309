package cloud_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/testtier"
)

// TestStoryInOneProcess tests a cloud whose functions all run in this process.
func TestStoryInOneProcess(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	tests := core()
	if testtier.IsFull(t) {
		tests = append(tests, thorough()...)
	}
	d.tell(t, tests)
	t.Run("creation of an agent is one trace", func(t *testing.T) { testTrace(t, d) })
	t.Run("TypeScript client passes its tests", func(t *testing.T) {
		t.Parallel()
		testtier.RequireFull(t, "installs packages of npm")
		testTypeScriptClient(t, d)
	})
	t.Run("Python client passes its tests", func(t *testing.T) {
		t.Parallel()
		testPythonClient(t, d)
	})
}

// TestStoryAsDeployed tests a cloud that runs every function in a separate process, and kills some of them. Like
// TestStoryOnARealNode, it is alone.
func TestStoryAsDeployed(t *testing.T) {
	testtier.RequireFull(t, "compiles every function's program")
	d := start(t, true)
	d.tell(t, append(core(), deployed()...))
	t.Run("worker killed while it provisions", func(t *testing.T) { testWorkerKilledWhileProvisioning(t, d) })
	t.Run("worker killed while it applies a secret", func(t *testing.T) { testWorkerKilledWhileApplyingSecrets(t, d) })
}

// tell runs tests concurrently on one cloud.
func (d deployment) tell(t *testing.T, tests []storyTest) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, d)
		})
	}
}

// storyTest is a test of a cloud on which others run concurrently.
type storyTest struct {
	name string
	run  func(*testing.T, deployment)
}

// core tests each part of the cloud once, and what clients must not see or do.
func core() []storyTest {
	return []storyTest{
		{"agent is created, runs and is deleted", testAgentLifecycle},
		{"agent pauses, stops and starts again", testPauseAndStop},
		{"dashboard opens by a one-time link", testDashboardLink},
		{"an idle agent sleeps and is woken", testSleep},
		{"credentials are rotated", testCredentialRotation},
		{"secrets and credentials change from a command line", testCommandLine},

		{"secrets are set, delivered and deleted", testSecretLifecycle},
		{"secret of a stopped agent waits for its start", testSecretsOfStoppedAgent},
		{"agent waits for the secrets it was created with", testAgentWaitsForItsSecrets},
		{"assistant repairs an agent", testAssistant},
		{"commands run in containers", testExec},
		{"terminal shows what its shell does", testTerminal},
		{"files are copied", testFiles},
		{"command line copies files", testCopies},

		{"requests are idempotent", testIdempotency},
		{"audit log has every call", testAuditLog},
		{"organizations are isolated", testTenantIsolation},
		{"creations are refused", testRefusedCreations},
		{"API keys are created and revoked", testAPIKeys},
		{"who may call what", matrix},
		{"caller, organization, plans and health", testCallerAndHealth},
		{"logs of ended containers are kept", testEndedLogs},
	}
}

// deployed tests what depends on the API server, on official emulators or on the processes of functions: failures and
// what repairs them, watches and scans.
func deployed() []storyTest {
	return []storyTest{
		{"crashing agent ends in error and can be restarted", testCrashEndsInError},
		{"agent that crashed recovers by itself", testRecoveryFromCrash},
		{"agent moves into the sandbox and out again", testSandboxMigration},
		{"agent is measured", testMetrics},
		{"uptime falls during an outage", testUptimeFalls},
		{"log is read and followed", testLogs},
		{"terminal ends with its key", testRevokedTerminal},

		{"concurrent writes of one secret take turns", testConcurrentSecretWrites},
		{"secret reaches its agent after every failure", testSecretDeliveryFailures},
		{"deletion during a secret write leaves no secret", testDeletionDuringSecretWrite},
		{"secret values do not leak", testSecretValuesDoNotLeak},

		{"webhook catches up with the event log", testWebhook},
		{"subscription is bought, unpaid, paid and canceled", testSubscriptionLifecycle},
	}
}

// thorough tests what takes a cloud long, and what needs the clock or the traces of this process.
func thorough() []storyTest {
	return []storyTest{
		{"agent is created, repaired and deleted from a command line", testAgentCommands},
		{"Go client takes an agent through its life", testGoClient},
		{"requests arrive while an agent falls asleep", testSleepInUse},
		{"a schedule wakes an agent and calls it", testSchedules},

		{"lost response of the secret store adds no second version", testLostSecretStoreResponses},
		{"secret values do not leak", testSecretValuesDoNotLeak},

		{"subscription is bought, unpaid, paid and canceled", testSubscriptionLifecycle},
		{"payments during creations keep usage exact", testPaymentsDuringCreations},
		{"invalid input is refused", testInvalidInput},
	}
}

func testAgentLifecycle(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "My first agent", "resource_plan": "starter", "config": {"theme": "dark"},
		"env_vars": {"MODE": "fast", "GITHUB_TOKEN": "canary-value"}}`)
	a := d.awaitStatus(t, id, "running")
	for name, status := range stages(a) {
		checkEqual(t, "stage "+name, status, "succeeded")
	}
	env, _ := a.body["env_vars"].(map[string]any)
	checkEqual(t, "env_vars.MODE", env["MODE"], "configured")
	checkEqual(t, "env_vars.GITHUB_TOKEN", env["GITHUB_TOKEN"], "gsm")
	if strings.Contains(a.text, "canary-value") {
		t.Error("the agent shows the value of a secret")
	}
	checkAgentCredentials(t, d, a)
	checkNamespace(t, d, "agent-"+id)
	checkAdmission(t, d, "agent-"+id)
	checkGrows(t, d, id)

	d.must(t, http.StatusAccepted, http.MethodDelete, "/api/v1/agents/"+id, "")
	d.await(t, id, "gone", func(a answer) bool {
		if a.status == http.StatusOK && a.body["status"] != "deleting" {
			t.Fatalf("status of a deleted agent = %v, want deleting", a.body["status"])
		}
		return a.status == http.StatusNotFound
	})
	if _, err := d.cluster.Namespaces().Get(t.Context(), "agent-"+id,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent is gone, but its namespace is not: %v", err)
	}
}

// checkGrows moves an agent from the plan starter to startup, and checks its pod and its volume.
func checkGrows(t *testing.T, d deployment, id string) {
	t.Helper()
	namespace, former := "agent-"+id, d.podUID(t, id)
	a := d.must(t, http.StatusOK, http.MethodPatch, "/api/v1/agents/"+id, `{"resource_plan": "startup"}`)
	checkEqual(t, "dashboard_warming of an agent that grows", a.body["dashboard_warming"], true)
	d.await(t, id, "running with its new size", func(a answer) bool {
		return a.body["status"] == "running" && a.body["dashboard_warming"] == false
	})
	pod, err := d.cluster.Pods(namespace).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "the agent has its former pod", pod.UID == former, false)
	checkEqual(t, "CPU limit of the pod", pod.Spec.Containers[0].Resources.Limits.Cpu().MilliValue(), int64(2000))
	claim, err := d.cluster.PersistentVolumeClaims(namespace).Get(t.Context(), "data", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "size that the claim asks for", claim.Spec.Resources.Requests.Storage().Value(), int64(20<<30))
	smaller := d.call(t, d.Ready.APIKey, http.MethodPatch, "/api/v1/agents/"+id, `{"resource_plan": "hobby"}`)
	checkEqual(t, "code of a smaller size", smaller.body["code"], "storage_cannot_shrink")
}

// checkAgentCredentials calls the agent's hostnames with its credentials, and with others.
func checkAgentCredentials(t *testing.T, d deployment, a answer) {
	t.Helper()
	id, _ := a.body["id"].(string)
	c := d.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
	checkEqual(t, "Cache-Control of credentials", c.header.Get("Cache-Control"), "no-store")
	user, _ := c.body["dashboard_username"].(string)
	password, _ := c.body["dashboard_password"].(string)
	key, _ := c.body["tenant_api_key"].(string)
	dashboard, _ := a.body["dashboard_url"].(string)
	api, _ := a.body["api_url"].(string)
	for name, test := range map[string]struct {
		url          string
		authenticate func(*http.Request)
		want         int
	}{
		"dashboard": {
			url: dashboard, authenticate: func(r *http.Request) { r.SetBasicAuth(user, password) }, want: http.StatusOK,
		},
		"dashboard, wrong password": {
			url: dashboard, authenticate: func(r *http.Request) { r.SetBasicAuth(user, "wrong") },
			want: http.StatusUnauthorized,
		},
		"API": {
			url: api + "/models", authenticate: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) },
			want: http.StatusOK,
		},
		"API, key of the control plane": {
			url:          api + "/models",
			authenticate: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+d.Ready.APIKey) },
			want:         http.StatusUnauthorized,
		},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, test.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		test.authenticate(req)
		res, err := d.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			t.Error(err)
		}
		checkEqual(t, "status of the agent's "+name, res.StatusCode, test.want)
	}
	refused := d.call(t, key, http.MethodGet, "/api/v1/me", "")
	checkEqual(t, "status of the control plane for an agent's key", refused.status, http.StatusUnauthorized)
}

// checkNamespace checks the objects in an agent's namespace.
func checkNamespace(t *testing.T, d deployment, namespace string) {
	t.Helper()
	ctx := t.Context()
	ns, err := d.cluster.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "pod security", ns.Labels["pod-security.kubernetes.io/enforce"], "restricted")
	sets, err := d.cluster.StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 {
		t.Errorf("stateful sets = %v, %v; want one", sets, err)
	} else {
		checkEqual(t, "ready replicas", sets.Items[0].Status.ReadyReplicas, int32(1))
	}
	claims, err := d.cluster.PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 {
		t.Errorf("volume claims = %v, %v; want one", claims, err)
	} else {
		checkEqual(t, "phase of the volume claim", claims.Items[0].Status.Phase, corev1.ClaimBound)
	}
	policies, err := d.cluster.NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(policies.Items) != 1 {
		t.Errorf("network policies = %v, %v; want one", policies, err)
	}
	quotas, err := d.cluster.ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(quotas.Items) != 1 {
		t.Errorf("quotas = %v, %v; want one", quotas, err)
	}
}

// checkAdmission checks that the API server refuses pods that the namespace must not hold.
func checkAdmission(t *testing.T, d deployment, namespace string) {
	t.Helper()
	yes, small := true, resource.MustParse("1m")
	pod := func(name string, privileged bool, cpu resource.Quantity) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{
					RunAsNonRoot:   &yes,
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
				},
				Containers: []corev1.Container{{
					Name: "c", Image: "i",
					Resources: corev1.ResourceRequirements{
						Limits:   corev1.ResourceList{"cpu": cpu, "memory": resource.MustParse("1Mi")},
						Requests: corev1.ResourceList{"cpu": small, "memory": resource.MustParse("1Mi")},
					},
					SecurityContext: &corev1.SecurityContext{
						Privileged: &privileged, AllowPrivilegeEscalation: &privileged,
						Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
					},
				}},
			},
		}
	}
	for name, p := range map[string]*corev1.Pod{
		"privileged": pod("bad", true, small),
		"over quota": pod("big", false, resource.MustParse("64")),
	} {
		_, err := d.cluster.Pods(namespace).Create(t.Context(), p,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			t.Errorf("creation of a pod that is %s: error %v, want Forbidden", name, err)
		}
	}
}

// tellsWhoStarts reports whether a visitor of a dashboard learns that only its owner starts the agent. Such a visitor
// is not told to retry.
func (d deployment) tellsWhoStarts(t *testing.T, url string) bool {
	t.Helper()
	res := d.callAgent(t, http.MethodGet, url, anonymous)
	defer res.Body.Close() //nolint:errcheck // reading is over
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(body), `"agent_stopped"`) {
		return false
	}
	checkEqual(t, "status for a visitor", res.StatusCode, http.StatusServiceUnavailable)
	checkEqual(t, "Retry-After for a visitor", res.Header.Get("Retry-After"), "")
	return true
}

func testPauseAndStop(t *testing.T, d deployment) {
	id := d.create(t, `{"name": "rests", "resource_plan": "hobby"}`)
	a := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"?wait=99", "")
	for end := time.Now().Add(patience); a.body["status"] == "provisioning" && time.Now().Before(end); {
		a = d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"?wait=99", "") // waits as long as it may
	}
	if a.body["status"] != "running" {
		t.Fatalf("status after waiting reads = %v, want running: %s", a.body["status"], a.text)
	}
	path := "/api/v1/agents/" + id + "/"
	checkIfMatch(t, d, id)
	d.must(t, http.StatusOK, http.MethodPost, path+"resume", "")
	d.awaitStatus(t, id, "running")
	for _, move := range []struct{ away, back, status string }{
		{away: "pause", back: "resume", status: "paused"}, {away: "stop", back: "start", status: "stopped"},
	} {
		a := d.must(t, http.StatusOK, http.MethodPost, path+move.away, "")
		checkEqual(t, "status after "+move.away, a.body["status"], move.status)
		d.must(t, http.StatusOK, http.MethodPost, path+move.away, "") // changes nothing
		d.await(t, id, "without a pod", func(answer) bool {
			pods, err := d.cluster.Pods("agent-"+id).List(t.Context(), metav1.ListOptions{})
			return err == nil && len(pods.Items) == 0
		})
		d.await(t, id, "said to be its owner's to start", func(a answer) bool {
			return d.tellsWhoStarts(t, fmt.Sprint(a.body["dashboard_url"]))
		})
		a = d.must(t, http.StatusConflict, http.MethodPost, path+"restart", "")
		checkEqual(t, "code of a restart while "+move.status, a.body["code"], "agent_state_conflict")
		d.must(t, http.StatusOK, http.MethodPost, path+move.back, "")
		d.awaitStatus(t, id, "running")
	}
	a = d.must(t, http.StatusOK, http.MethodPost, path+"restart", "")
	checkEqual(t, "dashboard_warming after a restart", a.body["dashboard_warming"], true)
	d.await(t, id, "warm", func(a answer) bool {
		return a.body["dashboard_warming"] == false && a.body["status"] == "running"
	})
	a = d.must(t, http.StatusOK, http.MethodPatch, "/api/v1/agents/"+id,
		`{"name": "renamed", "env_vars": {"MODE": "slow"}}`)
	checkEqual(t, "name after an update", a.body["name"], "renamed")
	checkEqual(t, "dashboard_warming after an update", a.body["dashboard_warming"], true)
	d.await(t, id, "warm", func(a answer) bool { return a.body["dashboard_warming"] == false })
	d.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}

// checkIfMatch pauses a running agent at its current version, which it refuses at any other.
func checkIfMatch(t *testing.T, d deployment, id string) {
	t.Helper()
	path := "/api/v1/agents/" + id + "/"
	current := d.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "").header.Get("ETag")
	stale := d.ifMatch(t, `"stale"`, http.MethodPost, path+"restart")
	checkRefusal(t, "restart of a stale version", stale, http.StatusPreconditionFailed, "version_mismatch")
	a := d.ifMatch(t, current, http.MethodPost, path+"pause")
	checkEqual(t, "status of a pause of the current version", a.status, http.StatusOK)
	if a.header.Get("ETag") == current {
		t.Errorf("ETag after a change = %s, the same as before", current)
	}
}
