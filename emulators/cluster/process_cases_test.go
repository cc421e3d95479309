//go:build linux

package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

func testEnvironment(t *testing.T, a *processAgent) {
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"PLAIN": "p"}}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"key": []byte("k")}}
	if _, err := a.client.ConfigMaps(a.namespace).Create(t.Context(), config,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.Secrets(a.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.container().EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}},
	}
	optional := true
	a.container().Env = append(a.container().Env,
		corev1.EnvVar{Name: "KEY", ValueFrom: secretKey("s", "key", nil)},
		corev1.EnvVar{Name: "NONE", ValueFrom: secretKey("missing", "key", &optional)},
		corev1.EnvVar{Name: "BOTH", Value: "$(PLAIN)-$(KEY)-$$(KEY)"},
		corev1.EnvVar{Name: "LABEL", ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"},
		}},
	)
	a.create(t)
	got := a.environment(t)
	wantNames := []string{
		"BOTH", "DATA_DIR", "HOME", "HOSTNAME", "KEY", "LABEL", "PATH", "PLAIN", "PORT", "RECORD", "TMPDIR",
	}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, wantNames) {
		t.Errorf("variables %q, want %q", names, wantNames)
	}
	for name, want := range map[string]string{
		"PLAIN": "p", "KEY": "k", "BOTH": "p-k-$(KEY)", "LABEL": "agent", "HOSTNAME": "agent-0",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q", name, got[name], want)
		}
	}
	if got["PORT"] == "3000" {
		t.Error("PORT = 3000, want a free port: other pods may have the same")
	}
}

func secretKey(name, key string, optional *bool) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key, Optional: optional,
	}}
}

func testMissingReference(t *testing.T, a *processAgent) {
	a.container().Env = append(a.container().Env, corev1.EnvVar{Name: "KEY", ValueFrom: secretKey("late", "key", nil)})
	a.apply(t)
	a.awaitPod(t, a.namespace, "waiting for the secret", func(status *corev1.PodStatus) bool {
		return isWaiting("CreateContainerConfigError")(status) && containerOf(status, "front").State.Running != nil
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Data: map[string][]byte{"key": []byte("k")}}
	if _, err := a.client.Secrets(a.namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	a.awaitReady(t)
	if restarts := containerOf(&a.pod(t).Status, "agent").RestartCount; restarts != 0 {
		t.Errorf("restarts = %d, want 0: the container never ran before", restarts)
	}
}

func testReadiness(t *testing.T, a *processAgent) {
	a.create(t)
	a.awaitEndpoint(t, true)
	a.call(t, http.MethodPost, "/sick/true")
	a.awaitPod(t, a.namespace, "unready", func(status *corev1.PodStatus) bool {
		return conditionIs(status, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady") &&
			!containerOf(status, "front").Ready && containerOf(status, "agent").Ready
	})
	a.awaitEndpoint(t, false)
	a.call(t, http.MethodPost, "/sick/false")
	a.awaitReady(t)
	a.awaitEndpoint(t, true)
}

func testCrash(t *testing.T, a *processAgent) {
	a.create(t)
	before := a.environment(t)
	a.call(t, http.MethodPost, "/exit/3")
	a.awaitPod(t, a.namespace, "restarted", func(status *corev1.PodStatus) bool {
		agent := containerOf(status, "agent")
		last := agent.LastTerminationState.Terminated
		return ready(status) && agent.RestartCount == 1 && last != nil && last.ExitCode == 3 && last.Reason == "Error"
	})
	if after := a.environment(t); !maps.Equal(before, after) {
		t.Errorf("environment of the second run %v, want that of the first: %v", after, before)
	}
	if restarts := containerOf(&a.pod(t).Status, "front").RestartCount; restarts != 0 {
		t.Errorf("the sidecar restarted %d times", restarts)
	}
}

func testLiveness(t *testing.T, a *processAgent) {
	a.container().LivenessProbe = httpProbe("/health", intstr.FromInt32(3000))
	a.create(t)
	a.call(t, http.MethodPost, "/sick/true")
	a.awaitPod(t, a.namespace, "restarted", func(status *corev1.PodStatus) bool {
		return ready(status) && containerOf(status, "agent").RestartCount == 1
	})
	if lines := a.recorded(t); !slices.Contains(lines, "entrypoint ends") {
		t.Errorf("the agent did not end gracefully; it wrote %q", lines)
	}
}

func testReplacement(t *testing.T, a *processAgent) {
	a.create(t)
	before, address := a.pod(t), a.address(t)
	dir := a.environment(t)["DATA_DIR"]
	note := filepath.Join(dir, "note")
	if err := os.WriteFile(note, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a.delete(t)
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := a.client.Pods(a.namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		if err == nil && (pod.UID == before.UID || !ready(&pod.Status)) {
			err = errors.New("the pod is not replaced yet")
		}
		return err
	})
	if dial(t.Context(), address) == nil {
		t.Errorf("a process of the old pod still listens on %s", address)
	}
	if after := a.environment(t)["DATA_DIR"]; after != dir {
		t.Errorf("DATA_DIR = %s, want that of the pod before: %s", after, dir)
	}
	if _, err := os.Stat(note); err != nil {
		t.Error(err)
	}
	if err := a.client.Namespaces().Delete(t.Context(), a.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(context.Context) error {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the directory of the deleted volume still exists: %w", err)
		}
		return nil
	})
}

func testOrder(t *testing.T, a *processAgent) {
	a.create(t)
	last := a.pod(t)
	a.delete(t)
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := a.client.Pods(a.namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil && pod.UID == last.UID:
			last, err = pod, errors.New("the pod still exists")
		}
		return err
	})
	want := []string{"init ran", "entrypoint got SIGTERM", "entrypoint ends", "front got SIGTERM", "front ends"}
	if got := a.recorded(t); len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Errorf("events %q, want %q first; the sidecar was last seen as %+v", got, want,
			containerOf(&last.Status, "front"))
	}
}

func testProcessFaults(t *testing.T, a *processAgent) {
	a.create(t)
	for _, step := range []struct {
		fault   cluster.Fault
		state   string
		reached func(*corev1.PodStatus) bool
	}{
		{fault: cluster.CrashLoop, state: "in a crash loop", reached: hasCrashed(1, "Error")},
		{fault: cluster.OutOfMemory, state: "out of memory", reached: hasCrashed(137, "OOMKilled")},
		{fault: cluster.ImagePull, state: "without its image", reached: isWaiting("ImagePullBackOff")},
		{fault: cluster.NotReady, state: "running, not ready", reached: func(status *corev1.PodStatus) bool {
			return containerOf(status, "agent").State.Running != nil && !ready(status)
		}},
		{fault: cluster.Unschedulable, state: "not bound to a node", reached: func(status *corev1.PodStatus) bool {
			return conditionIs(status, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
		}},
		{fault: cluster.Slow(2 * time.Second), state: "ready late", reached: func(status *corev1.PodStatus) bool {
			agent := containerOf(status, "agent")
			return ready(status) && time.Since(agent.State.Running.StartedAt.Time) >= 2*time.Second
		}},
	} {
		a.setFault(t, a.namespace, step.fault)
		a.awaitPod(t, a.namespace, step.state, step.reached)
	}
	a.setFault(t, a.namespace, "")
	a.awaitReady(t)
}
