//go:build unix

package gke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// discardLogs silences the warnings about the pods that tests break.
func discardLogs() { slog.SetDefault(slog.New(slog.DiscardHandler)) }

// awaitFor waits up to d for the agent's pod and returns the error of AwaitReady.
func (w *world) awaitFor(t *testing.T, a agent.Agent, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return w.AwaitReady(ctx, a)
}

// eventuallyTimesOut repeats a wait until one ends at its deadline with the failure code and message. The pod goes
// through other states first, some of which have the same code.
func (w *world) eventuallyTimesOut(t *testing.T, a agent.Agent, wait time.Duration, code, message string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		short, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		err := w.AwaitReady(short, a)
		var f *provisioning.PodFailure
		if !errors.As(err, &f) || f.Code != code || f.Permanent || !strings.Contains(f.Message, message) ||
			!errors.Is(err, context.DeadlineExceeded) {
			return fmt.Errorf("error %w, want the deadline's and the failure %s, not permanent, with %q", err, code,
				message)
		}
		return nil
	})
}

func TestAwaitReady_ReportsPodFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault     cluster.Fault
		code      string
		permanent bool // so certain that it is told before the wait ends
		message   string
	}{
		{fault: cluster.CrashLoop, code: codeCrashLoop, permanent: true, message: "exit code 1, 4 times"},
		{fault: cluster.OutOfMemory, code: codeOutOfMemory, permanent: true, message: "memory limit of 2 GiB"},
		{fault: cluster.ImagePull, code: codeImagePull, permanent: false, message: "cannot pull the agent's image"},
		{fault: cluster.Unschedulable, code: codeUnschedulable, permanent: false, message: "room"},
		{fault: cluster.NotReady, code: codeTimeout, permanent: false, message: "did not answer GET /health/ready"},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
			w.suffer(t, a, test.fault)
			w.apply(t, a, testRuntimeInput())
			if test.permanent {
				wantFailure(t, w.awaitFor(t, a, patience), test.code, true, test.message)
			} else {
				w.eventuallyTimesOut(t, a, time.Second, test.code, test.message)
			}
			w.suffer(t, a, "")
			a.Rollout++ // a pod that crashed has its restarts counted: the new one starts from nothing
			w.apply(t, a, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
			w.awaitReady(t, a)
		})
	}
}

func TestAwaitReady_WaitsForASlowStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	w.suffer(t, a, cluster.Slow(2*time.Second))
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
}

// By default, a StatefulSet does not replace a pod that is not ready, so a fix would never reach it.
func TestApply_ReplacesAPodThatIsNeverReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	w.suffer(t, a, cluster.NotReady)
	w.apply(t, a, testRuntimeInput())
	hashes := func(want string) {
		t.Helper()
		clustertest.Eventually(t, func(ctx context.Context) error {
			pod, err := w.admin.CoreV1().Pods(a.Namespace()).Get(ctx, podName, metav1.GetOptions{})
			if err == nil && pod.Annotations[annotationConfig] != want {
				err = fmt.Errorf("the pod has hash %q, want %q", pod.Annotations[annotationConfig], want)
			}
			return err
		})
	}
	hashes(configHash(a))
	a.Rollout++
	w.apply(t, a, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
	hashes(configHash(a))
}

// The pod of the former configuration does not count.
func TestAwaitReady_AcceptsOnlyTheDesiredPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	next := a
	next.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: "debug"}}
	w.eventuallyTimesOut(t, next, time.Second, codeTimeout, "previous pod")
	w.apply(t, next, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
	w.awaitReady(t, next)
}

func TestApply_StopAndStartKeepsTheVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	pods := w.admin.CoreV1().Pods(a.Namespace())
	before, err := pods.Get(t.Context(), podName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume := func() string {
		t.Helper()
		claim, err := w.admin.CoreV1().PersistentVolumeClaims(a.Namespace()).Get(t.Context(), volumeName,
			metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return claim.Spec.VolumeName
	}
	had := volume()

	a.Status = agent.Stopped
	w.apply(t, a, provisioning.RuntimeInput{}, agent.StageRuntime)
	clustertest.Eventually(t, func(ctx context.Context) error {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods", len(left.Items))
		}
		return err
	})
	a.Status = agent.Provisioning
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	after, err := pods.Get(t.Context(), podName, metav1.GetOptions{})
	if err != nil || after.UID == before.UID || volume() != had || had == "" {
		t.Errorf("error %v, or the same pod, or another volume than %q", err, had)
	}
}

// An agent whose objects are gone must be provisioned again.
func TestAwaitReady_MissingObjectsAreNamespaceMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantUnavailable(t, w.awaitFor(t, w.newAgent(t), patience), provisioning.CodeNamespaceMissing)
}

// Any other news about the pod replaces the explanation.
func TestWait_KeepsAnEventsExplanationWhileThePodIsSilent(t *testing.T) {
	t.Parallel()
	told := verdict{failure: explainEvent("FailedMount", ""), silent: true, event: true, pod: "pod"}
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		code string
	}{
		"silent":  {pod: podWith(), code: codeNoVolume},
		"another": {pod: podWith(func(p *corev1.Pod) { p.UID = "next" }), code: codeTimeout},
		"speaks": {
			pod:  podWith(withContainer(0, waitingFor("ErrImagePull"), corev1.ContainerState{})),
			code: codeImagePull,
		},
	} {
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(test.pod)
		if err != nil {
			t.Fatal(err)
		}
		w := wait{desired: desired{hash: "hash"}, last: told}
		if done, err := w.see(state{object: &unstructured.Unstructured{Object: object}}); done || err != nil ||
			w.last.failure.Code != test.code {
			t.Errorf("%s: done %t, error %v, %s; want to wait on, and %s", name, done, err, w.last.failure.Code,
				test.code)
		}
	}
}

func TestAwaitReady_CancelSaysNothingAboutThePod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	w.suffer(t, a, cluster.NotReady)
	w.apply(t, a, testRuntimeInput())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if strings.Contains(r.URL.RawQuery, "watch") {
			cancel()
		}
		return nil, nil
	}
	err := w.AwaitReady(ctx, a)
	var f *provisioning.PodFailure
	if !errors.Is(err, context.Canceled) || errors.As(err, &f) {
		t.Errorf("error %v, want the context's alone", err)
	}
}
