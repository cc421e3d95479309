//go:build unix

package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// awaitFor waits for readiness for a while and returns what came of it.
func (w *world) awaitFor(t *testing.T, a agent.Agent, d time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return w.AwaitReady(ctx, a)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault     cluster.Fault
		code      string
		permanent bool // so certain that it is told before the wait ends
		message   string
	}{
		{cluster.CrashLoop, codeCrashLoop, true, "exit code 1, 4 times"},
		{cluster.OutOfMemory, codeOutOfMemory, true, "more than the 2 GiB"},
		{cluster.ImagePull, codeImagePull, false, "image can't be fetched"},
		{cluster.Unschedulable, codeUnschedulable, false, "room"},
		{cluster.NotReady, codeTimeout, false, "did not answer GET /health/ready"},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			w.apply(t, a, testMaterial(), agent.StageNamespace)
			w.suffer(t, a, test.fault)
			w.apply(t, a, testMaterial())
			if test.permanent {
				wantFailure(t, w.awaitFor(t, a, patience), test.code, true, test.message)
			} else {
				// The fault is there before the pod: what takes time is the pod's way to it.
				eventually(t, func(ctx context.Context) error {
					short, cancel := context.WithTimeout(ctx, 2*time.Second)
					defer cancel()
					err := w.AwaitReady(short, a)
					var f *provisioning.PodFailure
					if !errors.As(err, &f) || f.Code != test.code || !errors.Is(err, context.DeadlineExceeded) {
						return fmt.Errorf("error %w, want %s and the deadline's", err, test.code)
					}
					wantFailure(t, err, test.code, false, test.message)
					return nil
				})
			}
			w.suffer(t, a, "")
			a.Rollout++ // a pod that crashed has its restarts counted: the new one starts from nothing
			w.apply(t, a, testMaterial(), agent.StageRuntime)
			w.awaitReady(t, a)
		})
	}
}

func TestSlowStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace)
	w.suffer(t, a, cluster.Slow(2*time.Second))
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
}

// TestBrokenPodIsReplaced shows that what mends an agent reaches it though its pod is never ready: a StatefulSet's default is to wait.
func TestBrokenPodIsReplaced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace)
	w.suffer(t, a, cluster.NotReady)
	w.apply(t, a, testMaterial())
	hashes := func(want string) {
		t.Helper()
		eventually(t, func(ctx context.Context) error {
			pod, err := w.admin.CoreV1().Pods(a.Namespace()).Get(ctx, podName, metav1.GetOptions{})
			if err == nil && pod.Annotations[annotationConfig] != want {
				err = fmt.Errorf("the pod has hash %q, want %q", pod.Annotations[annotationConfig], want)
			}
			return err
		})
	}
	hashes(configHash(a))
	a.Rollout++
	w.apply(t, a, testMaterial(), agent.StageRuntime)
	hashes(configHash(a))
}

// TestOnlyTheDesiredPodIsReady shows that the pod of the state before does not count.
func TestOnlyTheDesiredPodIsReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
	next := a
	next.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: "debug"}}
	wantFailure(t, w.awaitFor(t, next, 500*time.Millisecond), codeTimeout, false, "former pod")
	w.apply(t, next, testMaterial(), agent.StageRuntime)
	w.awaitReady(t, next)
}

// TestStopAndStart takes the pod away and brings another, which finds the same volume.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
	pods := w.admin.CoreV1().Pods(a.Namespace())
	before, err := pods.Get(t.Context(), podName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	volume := func() string {
		t.Helper()
		claim, err := w.admin.CoreV1().PersistentVolumeClaims(a.Namespace()).Get(t.Context(), volumeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return claim.Spec.VolumeName
	}
	had := volume()

	a.Status = agent.Stopped
	w.apply(t, a, provisioning.Material{}, agent.StageRuntime)
	eventually(t, func(ctx context.Context) error {
		left, err := pods.List(ctx, metav1.ListOptions{})
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d pods", len(left.Items))
		}
		return err
	})
	a.Status = agent.Provisioning
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
	after, err := pods.Get(t.Context(), podName, metav1.GetOptions{})
	if err != nil || after.UID == before.UID || volume() != had || had == "" {
		t.Errorf("error %v, or the same pod, or another volume than %q", err, had)
	}
}

// TestRefusedPods shows what is told of pods that the API server refuses to the StatefulSet: only events say so.
func TestRefusedPods(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, template, code string
		permanent            bool
	}{
		{"no runtime class", `{"runtimeClassName":"kata"}`, codeNoSandbox, true},
		{"pod security", `{"hostNetwork":true}`, codeRejected, true},
		{"quota", `{"terminationGracePeriodSeconds":30}`, codeQuotaExceeded, false},
		{"no service account", `{"serviceAccountName":"nobody"}`, codeRejected, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			stopped := a
			stopped.Status = agent.Stopped
			w.apply(t, stopped, testMaterial())
			if test.code == codeQuotaExceeded {
				w.fill(t, a)
			}
			// As if the templates of this package were wrong.
			patch := fmt.Sprintf(`{"spec":{"replicas":1,"template":{"spec":%s}}}`, test.template)
			sets := w.admin.AppsV1().StatefulSets(a.Namespace())
			if _, err := sets.Patch(t.Context(), agentName, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			wait := patience
			if !test.permanent {
				wait = 2 * firstLook
			}
			wantFailure(t, w.awaitFor(t, a, wait), test.code, test.permanent)
		})
	}
}

// fill uses up the namespace's quota.
func (w *world) fill(t *testing.T, a agent.Agent) {
	t.Helper()
	b, err := w.blueprint(a, testMaterial())
	if err != nil {
		t.Fatal(err)
	}
	for i := range quotaPods {
		template := b.pod()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("filler-%d", i)}, Spec: template.Spec}
		if _, err := w.admin.CoreV1().Pods(a.Namespace()).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOldEventsAreOver shows that what was wrong before the workload was changed explains nothing after.
func TestOldEventsAreOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	stopped := a
	stopped.Status = agent.Stopped
	w.apply(t, stopped, testMaterial())
	set, err := w.admin.AppsV1().StatefulSets(a.Namespace()).Get(t.Context(), agentName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old := metav1.NewTime(set.CreationTimestamp.Add(-time.Minute))
	for i, at := range []metav1.Time{old, metav1.Now()} {
		event := &corev1.Event{
			ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("event-%d", i)},
			InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: a.Namespace(), Name: agentName, UID: set.UID},
			Type:           corev1.EventTypeWarning, Reason: "FailedCreate", FirstTimestamp: at, LastTimestamp: at,
			Message: `create Pod agent-0 in StatefulSet agent failed error: pods "agent-0" is forbidden: pod rejected: RuntimeClass "gvisor" not found`,
		}
		if _, err := w.admin.CoreV1().Events(a.Namespace()).Create(t.Context(), event, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		code, permanent := codeTimeout, false
		if at != old {
			code, permanent = codeNoSandbox, true
		}
		wantFailure(t, w.awaitFor(t, a, firstLook+time.Second), code, permanent)
	}
}

// TestNothingToWaitFor shows that an agent whose objects are gone is provisioned again, not waited for.
func TestNothingToWaitFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantUnavailable(t, w.awaitFor(t, w.newAgent(t), patience), provisioning.CodeNamespaceMissing)
}

func TestWaitCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace)
	w.suffer(t, a, cluster.NotReady)
	w.apply(t, a, testMaterial())
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
