package cloud_test

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestStoryInOneProcess tells the story with all functions in this process.
func TestStoryInOneProcess(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	tell(t, w)
	t.Run("an agent is made in one trace", func(t *testing.T) { traced(t, w) })
}

// TestStoryAsDeployed tells the story with every function in a process of its own, and what only processes can: being
// killed.
func TestStoryAsDeployed(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	tell(t, w)
	t.Run("the worker is killed while it provisions", func(t *testing.T) { killed(t, w) })
	t.Run("the worker is killed while it brings a secret", func(t *testing.T) { killedAtSecrets(t, w) })
}

func tell(t *testing.T, w world) {
	t.Helper()
	t.Run("an agent is created, runs, and is gone", func(t *testing.T) { t.Parallel(); lives(t, w) })
	t.Run("an agent rests and comes back", func(t *testing.T) { t.Parallel(); rests(t, w) })
	t.Run("a broken image ends in an error with a reason", func(t *testing.T) { t.Parallel(); fails(t, w) })
	t.Run("a running agent breaks and mends by itself", func(t *testing.T) { t.Parallel(); mends(t, w) })
	t.Run("a cluster without a sandbox", func(t *testing.T) { t.Parallel(); sandboxed(t, w) })
	t.Run("requests that are safe to repeat", func(t *testing.T) { t.Parallel(); repeats(t, w) })
	t.Run("what the audit log tells", func(t *testing.T) { t.Parallel(); audited(t, w) })
	t.Run("organizations see nothing of each other", func(t *testing.T) { t.Parallel(); strangers(t, w) })
	t.Run("refusals", func(t *testing.T) { t.Parallel(); refusals(t, w) })
	t.Run("keys", func(t *testing.T) { t.Parallel(); keys(t, w) })
	t.Run("a customer pays, fails to pay, and leaves", func(t *testing.T) { t.Parallel(); pays(t, w) })
	t.Run("payments race creations", func(t *testing.T) { t.Parallel(); counts(t, w) })
	t.Run("bad input", func(t *testing.T) { t.Parallel(); badInput(t, w) })
	t.Run("who may call what", func(t *testing.T) { t.Parallel(); matrix(t, w) })
	t.Run("an agent is measured", func(t *testing.T) { t.Parallel(); measures(t, w) })
	t.Run("secrets are set, live, and gone", func(t *testing.T) { t.Parallel(); secretsLive(t, w) })
	t.Run("a lost answer is no second version", func(t *testing.T) { t.Parallel(); lostAnswer(t, w) })
	t.Run("requests for one key take turns", func(t *testing.T) { t.Parallel(); takeTurns(t, w) })
	t.Run("secrets of an agent that rests", func(t *testing.T) { t.Parallel(); parked(t, w) })
	t.Run("a secret that is kept from its agent", func(t *testing.T) { t.Parallel(); hindered(t, w) })
	t.Run("an agent waits for the secrets it was created with", func(t *testing.T) { t.Parallel(); awaited(t, w) })
	t.Run("secrets of an agent that is deleted", func(t *testing.T) { t.Parallel(); deletedMeanwhile(t, w) })
	t.Run("credentials are rotated", func(t *testing.T) { t.Parallel(); rotated(t, w) })
	t.Run("a dashboard is opened by a link", func(t *testing.T) { t.Parallel(); opened(t, w) })
	t.Run("secret values are nowhere else", func(t *testing.T) { t.Parallel(); confidential(t, w) })
	t.Run("callers and health", func(t *testing.T) { t.Parallel(); callers(t, w) })
}

func lives(t *testing.T, w world) {
	id := w.create(t, `{"name": "My first agent", "resource_plan": "starter", "env_vars": {"MODE": "fast", "GITHUB_TOKEN": "canary-value"}, "config": {"theme": "dark"}}`)
	a := w.awaitStatus(t, id, "running")
	for name, status := range stages(a) {
		if status != "succeeded" {
			t.Errorf("stage %s is %s", name, status)
		}
	}
	env, _ := a.body["env_vars"].(map[string]any)
	if env["MODE"] != "configured" || env["GITHUB_TOKEN"] != "gsm" || strings.Contains(a.text, "canary-value") {
		t.Errorf("env_vars %v", env)
	}
	visit(t, w, a)
	objects(t, w, "agent-"+id)
	guarded(t, w, "agent-"+id)

	w.must(t, http.StatusAccepted, http.MethodDelete, "/api/v1/agents/"+id, "")
	w.await(t, id, "gone", func(a answer) bool {
		if a.status == http.StatusOK && a.body["status"] != "deleting" {
			t.Fatalf("a deleted agent is %v", a.body["status"])
		}
		return a.status == http.StatusNotFound
	})
	if _, err := w.cluster.CoreV1().Namespaces().Get(t.Context(), "agent-"+id,
		metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the agent is gone and its namespace is not: %v", err)
	}
}

// visit uses the agent's own credentials on its own hostname.
func visit(t *testing.T, w world, a answer) {
	t.Helper()
	id, _ := a.body["id"].(string)
	c := w.must(t, http.StatusOK, http.MethodPost, "/agents/"+id+"/credentials/reveal", "")
	if c.header.Get("Cache-Control") != "no-store" {
		t.Error("credentials may be stored on the way")
	}
	user, _ := c.body["dashboard_username"].(string)
	password, _ := c.body["dashboard_password"].(string)
	key, _ := c.body["tenant_api_key"].(string)
	dashboard, _ := a.body["dashboard_url"].(string)
	api, _ := a.body["api_url"].(string)
	for _, try := range []struct {
		url    string
		set    func(*http.Request)
		status int
	}{
		{url: dashboard, set: func(r *http.Request) { r.SetBasicAuth(user, password) }, status: 200},
		{url: dashboard, set: func(r *http.Request) { r.SetBasicAuth(user, "wrong") }, status: 401},
		{url: api, set: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+key) }, status: 200},
		{url: api, set: func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+w.Ready.APIKey) }, status: 401},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, try.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		try.set(req)
		res, err := w.Client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := res.Body.Close(); err != nil || res.StatusCode != try.status {
			t.Errorf("%s answers %d, want %d", try.url, res.StatusCode, try.status)
		}
	}
	if refused := w.call(t, key, http.MethodGet, "/api/v1/me", ""); refused.status != http.StatusUnauthorized {
		t.Errorf("the control plane takes an agent's key: %d", refused.status)
	}
}

// objects looks at what the agent's namespace holds.
func objects(t *testing.T, w world, namespace string) {
	t.Helper()
	ctx := t.Context()
	ns, err := w.cluster.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil || ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Fatalf("namespace %v: %v", ns.Labels, err)
	}
	sets, err := w.cluster.AppsV1().StatefulSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(sets.Items) != 1 || sets.Items[0].Status.ReadyReplicas != 1 {
		t.Errorf("stateful sets %v: %v", sets, err)
	}
	claims, err := w.cluster.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(claims.Items) != 1 || claims.Items[0].Status.Phase != corev1.ClaimBound {
		t.Errorf("claims %v: %v", claims, err)
	}
	policies, err := w.cluster.NetworkingV1().NetworkPolicies(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(policies.Items) < 2 {
		t.Errorf("network policies %v: %v", policies, err)
	}
	quotas, err := w.cluster.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
	if err != nil || len(quotas.Items) != 1 {
		t.Errorf("quotas %v: %v", quotas, err)
	}
}

// guarded has the API server refuse what the namespace must not hold.
func guarded(t *testing.T, w world, namespace string) {
	t.Helper()
	yes, small := true, resource.MustParse("1m")
	pod := func(name string, privileged bool, cpu resource.Quantity) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: &yes,
					SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
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
	for name, p := range map[string]*corev1.Pod{"privileged": pod("bad", true, small),
		"over quota": pod("big", false, resource.MustParse("64"))} {
		_, err := w.cluster.CoreV1().Pods(namespace).Create(t.Context(), p,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if !apierrors.IsForbidden(err) {
			t.Errorf("a pod that is %s is not refused: %v", name, err)
		}
	}
}

func rests(t *testing.T, w world) {
	id := w.create(t, `{"name": "rests", "resource_plan": "hobby"}`)
	if a := w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id+"?wait=99", ""); a.body["status"] != "running" {
		t.Fatalf("after waiting: %s", a.text)
	}
	path := "/api/v1/agents/" + id + "/"
	seen := w.must(t, http.StatusOK, http.MethodGet, "/agents/"+id, "").header.Get("ETag")
	if a := w.ifMatch(t, `"stale"`, http.MethodPost, path+"restart"); a.status != http.StatusPreconditionFailed ||
		a.body["code"] != "version_mismatch" {
		t.Errorf("a change of a stale version: %d %s", a.status, a.text)
	}
	if a := w.ifMatch(t, seen, http.MethodPost, path+"pause"); a.status != http.StatusOK ||
		a.header.Get("ETag") == seen {
		t.Errorf("a change of the present version: %d %s", a.status, a.text)
	}
	w.must(t, http.StatusOK, http.MethodPost, path+"resume", "")
	w.awaitStatus(t, id, "running")
	noPods := func(t *testing.T) {
		t.Helper()
		w.await(t, id, "without a pod", func(answer) bool {
			pods, err := w.cluster.CoreV1().Pods("agent-"+id).List(t.Context(), metav1.ListOptions{})
			return err == nil && len(pods.Items) == 0
		})
	}
	for _, move := range []struct{ away, back, status string }{{away: "pause", back: "resume", status: "paused"},
		{away: "stop", back: "start", status: "stopped"}} {
		if a := w.must(t, http.StatusOK, http.MethodPost, path+move.away, ""); a.body["status"] != move.status {
			t.Errorf("%s: %v", move.away, a.body["status"])
		}
		w.must(t, http.StatusOK, http.MethodPost, path+move.away, "") // reached already
		noPods(t)
		if a := w.must(t, http.StatusConflict, http.MethodPost, path+"restart",
			""); a.body["code"] != "agent_state_conflict" {
			t.Errorf("restart while %s: %s", move.status, a.text)
		}
		w.must(t, http.StatusOK, http.MethodPost, path+move.back, "")
		w.awaitStatus(t, id, "running")
	}
	if a := w.must(t, http.StatusOK, http.MethodPost, path+"restart", ""); a.body["dashboard_warming"] != true {
		t.Errorf("restart: %s", a.text)
	}
	w.await(t, id, "warm", func(a answer) bool {
		return a.body["dashboard_warming"] == false &&
			a.body["status"] == "running"
	})
	a := w.must(t, http.StatusOK, http.MethodPatch, "/api/v1/agents/"+id,
		`{"name": "renamed", "env_vars": {"MODE": "slow"}}`)
	if a.body["name"] != "renamed" || a.body["dashboard_warming"] != true {
		t.Errorf("patch: %s", a.text)
	}
	w.await(t, id, "warm", func(a answer) bool { return a.body["dashboard_warming"] == false })
	w.must(t, http.StatusAccepted, http.MethodDelete, "/agents/"+id, "")
}
