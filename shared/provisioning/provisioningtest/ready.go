package provisioningtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func testBringUp(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.apply(t, a)
	w.awaitReady(t, a)
	w.awaitReady(t, a)
}

func testDesiredPod(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	for name, change := range map[string]func(*agent.Agent){
		"variable":   func(a *agent.Agent) { a.Env = append(a.Env, agent.EnvVar{Key: "ADDED", Value: "yes"}) },
		"rollout":    func(a *agent.Agent) { a.Rollout++ },
		"credential": func(a *agent.Agent) { a.CredentialVersion++ },
	} {
		next := a
		change(&next)
		w.awaitNotReady(t, next)
		w.apply(t, next, agent.StageSecrets, agent.StageRuntime)
		w.awaitReady(t, next)
		if t.Failed() {
			t.Fatalf("failed after a change of the %s", name)
		}
		a = next
	}
}

func testStopAndStart(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a)
	w.awaitReady(t, a)
	for _, status := range []agent.Status{agent.Stopped, agent.Paused} {
		a.Status = status
		// The worker that removes a pod has no secrets.
		if err := w.Cluster.Apply(t.Context(), a, agent.StageRuntime, provisioning.RuntimeInput{}); err != nil {
			t.Fatal(err)
		}
		a.Status = agent.Provisioning
		a.Rollout++
		w.awaitNotReady(t, a)
		w.apply(t, a)
		w.awaitReady(t, a)
	}
}

func testNeverReady(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace)
	w.Suffer(t, a, NeverReady)
	w.apply(t, a)
	w.awaitNotReady(t, a)
	later := w.Agent(t)
	w.apply(t, later)
	w.awaitReady(t, later) // by then, a pod without trouble would be ready
	w.awaitNotReady(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := w.Cluster.CheckReady(ctx, a)
	if !fault.Is(err, fault.Unavailable) && !errors.As(err, new(*provisioning.PodFailure)) {
		t.Errorf("CheckReady with a canceled context = %v, want Unavailable or a PodFailure", err)
	}
	w.Suffer(t, a, None)
	w.awaitReady(t, a)
}

func testCrashLoop(t *testing.T, w Fixture) {
	a := w.Agent(t)
	w.apply(t, a, agent.StageNamespace)
	w.Suffer(t, a, CrashLoop)
	w.apply(t, a)
	w.wantCrashLoop(t, a)
	w.Suffer(t, a, None)
	a.Rollout++
	w.apply(t, a, agent.StageSecrets, agent.StageRuntime)
	w.awaitReady(t, a)
}

// wantCrashLoop waits until CheckReady reports a permanent crash loop.
func (w Fixture) wantCrashLoop(t *testing.T, a agent.Agent) {
	t.Helper()
	w.eventually(t, func(ctx context.Context) error {
		err := w.Cluster.CheckReady(ctx, a)
		var failure *provisioning.PodFailure
		if !errors.As(err, &failure) || failure.Code != "pod_crash_loop" || !failure.Permanent {
			return fmt.Errorf("error %w, want a permanent pod_crash_loop", err)
		}
		return nil
	})
}
