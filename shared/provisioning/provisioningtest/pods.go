package provisioningtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

func testPods(t *testing.T, w World) {
	a, half, unseen := w.Agent(t), w.Agent(t), w.Agent(t)
	if !slices.Contains(w.Pods.Cells(), a.Cell) {
		t.Fatalf("the cells %v, want %s among them", w.Pods.Cells(), a.Cell)
	}
	if pods, err := w.Pods.Pods(t.Context(), "no-such-cell"); err == nil {
		t.Errorf("an unknown cell has %d pods", len(pods))
	}
	begun := time.Now()
	w.apply(t, half, agent.StageNamespace, agent.StagePolicy)
	w.apply(t, a)
	w.awaitReady(t, a)
	p := w.pod(t, a)
	if p == nil {
		t.Fatal("a pod that is ready is not seen")
	}
	// Clusters tell times in whole seconds.
	if p.Failure != nil || p.LastRun != 0 || p.Since.Before(begun.Add(-2*time.Second)) ||
		p.Since.After(time.Now().Add(2*time.Second)) {
		t.Errorf("a pod that is ready: %+v, since %v", *p, p.Since)
	}
	for _, none := range []agent.Agent{half, unseen} {
		if p := w.pod(t, none); p != nil {
			t.Errorf("a pod of an agent without one: %+v", *p)
		}
	}
	if !w.Pods.Current(a, *p) {
		t.Error("a pod of the present configuration is not current")
	}
	for name, change := range map[string]func(*agent.Agent){
		"variable": func(a *agent.Agent) {
			a.Env = append(slices.Clone(a.Env),
				agent.EnvVar{Key: "ADDED", Value: "yes"})
		},
		"secret": func(a *agent.Agent) {
			a.Env = append(slices.Clone(a.Env), agent.EnvVar{Key: "TOKEN", SecretVersion: 9})
		},
		"rollout":    func(a *agent.Agent) { a.Rollout++ },
		"credential": func(a *agent.Agent) { a.CredentialVersion++ },
	} {
		next := a
		if change(&next); w.Pods.Current(next, *p) {
			t.Errorf("a pod is current after a change of the %s", name)
		}
	}
	if w.Pods.Current(a, provisioning.Pod{AgentID: a.ID}) {
		t.Error("a pod of no known configuration is current")
	}
}

// pod looks for the agent's pod.
func (w World) pod(t *testing.T, a agent.Agent) *provisioning.Pod {
	t.Helper()
	pods, err := w.Pods.Pods(t.Context(), a.Cell)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		if p.AgentID == a.ID {
			return &p
		}
	}
	return nil
}

// testPodsInTrouble has a pod break that is seen as AwaitReady sees it, and mend.
func testPodsInTrouble(t *testing.T, w World) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace)
	w.Suffer(t, a, CrashLoop)
	w.apply(t, a)
	w.wantCrashLoop(t, a)
	p := w.pod(t, a)
	if p == nil || p.Failure == nil || p.Failure.Code != "pod_crash_loop" || !p.Failure.Permanent ||
		p.Failure.Message == "" {
		t.Fatalf("a pod in a crash loop: %+v", p)
	}
	if !w.Pods.Current(a, *p) || p.LastRun > time.Minute {
		t.Errorf("a pod in a crash loop: current %t, last run %v", w.Pods.Current(a, *p), p.LastRun)
	}
	w.Suffer(t, a, None)
	a.Rollout++
	w.apply(t, a, agent.StageRuntime)
	w.awaitReady(t, a)
	if p := w.pod(t, a); p == nil || p.Failure != nil {
		t.Errorf("a pod that mended: %+v", p)
	}
}

func testPresence(t *testing.T, w World) {
	a := w.Agent(t)
	want := func(when string, want provisioning.Existence) {
		t.Helper()
		if got, err := w.Pods.Existence(t.Context(), a); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
		}
	}
	want("before anything", provisioning.Existence{})
	w.apply(t, a, agent.StageNamespace)
	want("with a namespace", provisioning.Existence{Namespace: true})
	w.apply(t, a)
	w.awaitReady(t, a)
	want("when it runs", provisioning.Existence{Namespace: true, Pod: true})
	if err := w.Cluster.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want("while it is being deleted", provisioning.Existence{})
	w.awaitGone(t, a)
	want("in the end", provisioning.Existence{})
	a.Cell = "no-such-cell"
	var permanent *provisioning.Permanent
	if got, err := w.Pods.Existence(t.Context(), a); !errors.As(err, &permanent) ||
		got != (provisioning.Existence{}) {
		t.Errorf("in an unknown cell: %+v, %v; want an error", got, err)
	}
}
