package provisioningtest

import (
	"slices"
	"testing"
	"time"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func testPods(t *testing.T, w Fixture) {
	a, half, unseen := w.Agent(t), w.Agent(t), w.Agent(t)
	if !slices.Contains(w.Pods.Cells(), a.Cell) {
		t.Fatalf("the cells %v, want %s among them", w.Pods.Cells(), a.Cell)
	}
	if pods, err := w.Pods.Pods(t.Context(), "no-such-cell"); err == nil {
		t.Errorf("Pods of an unknown cell = %d pods, want an error", len(pods))
	}
	begun := time.Now()
	w.apply(t, half, agent.StageNamespace, agent.StagePolicy)
	w.apply(t, a)
	w.awaitReady(t, a)
	p := w.pod(t, a)
	if p == nil {
		t.Fatal("Pods does not list a ready pod")
	}
	// Clusters report times in whole seconds.
	if p.Failure != nil || p.LastRun != 0 || p.Since.Before(begun.Add(-2*time.Second)) ||
		p.Since.After(time.Now().Add(2*time.Second)) {
		t.Errorf("ready pod = %+v, since %v, want it without a failure or run, since about %v", *p, p.Since, begun)
	}
	for _, none := range []agent.Agent{half, unseen} {
		if p := w.pod(t, none); p != nil {
			t.Errorf("pod of an agent without one = %+v, want none", *p)
		}
	}
	if !w.Pods.Current(a, *p) {
		t.Error("Current = false for a pod of the present configuration, want true")
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
			t.Errorf("Current = true after a change of the %s, want false", name)
		}
	}
	if w.Pods.Current(a, provisioning.Pod{AgentID: a.ID}) {
		t.Error("Current = true for a pod without a configuration, want false")
	}
}

// pod returns the agent's pod, or nil.
func (w Fixture) pod(t *testing.T, a agent.Agent) *provisioning.Pod {
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

// testPodsInTrouble makes a pod crash and recover. Pods must agree with CheckReady.
func testPodsInTrouble(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace)
	w.Suffer(t, a, CrashLoop)
	w.apply(t, a)
	w.wantCrashLoop(t, a)
	p := w.pod(t, a)
	if p == nil || p.Failure == nil || p.Failure.Code != "pod_crash_loop" || !p.Failure.Permanent ||
		p.Failure.Message == "" {
		t.Fatalf("crash-looping pod = %+v, want a permanent pod_crash_loop with a message", p)
	}
	if !w.Pods.Current(a, *p) || p.LastRun > time.Minute {
		t.Errorf("crash-looping pod: current %t, last run %v, want true and at most a minute", w.Pods.Current(a, *p),
			p.LastRun)
	}
	w.Suffer(t, a, None)
	a.Rollout++
	w.apply(t, a, agent.StageSecrets, agent.StageRuntime)
	w.awaitReady(t, a)
	if p := w.pod(t, a); p == nil || p.Failure != nil {
		t.Errorf("recovered pod = %+v, want one without a failure", p)
	}
}

func testExistence(t *testing.T, w Fixture) {
	a := w.Agent(t)
	want := func(when string, want provisioning.Existence) {
		t.Helper()
		if got, err := w.Pods.Existence(t.Context(), a); err != nil || got != want {
			t.Errorf("Existence %s = %+v, %v, want %+v", when, got, err, want)
		}
	}
	want("before anything", provisioning.Existence{})
	w.apply(t, a, agent.StageNamespace)
	want("with a namespace", provisioning.Existence{Namespace: true})
	w.apply(t, a)
	w.awaitReady(t, a)
	want("while it runs", provisioning.Existence{Namespace: true, Pod: true})
	if err := w.Cluster.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	want("while it is being deleted", provisioning.Existence{})
	w.awaitGone(t, a)
	want("after the deletion", provisioning.Existence{})
	a.Cell = "no-such-cell"
	if got, err := w.Pods.Existence(t.Context(), a); !fault.Is(err, fault.Unavailable) ||
		got != (provisioning.Existence{}) {
		t.Errorf("Existence in an unknown cell = %+v, %v, want an Unavailable error", got, err)
	}
}
