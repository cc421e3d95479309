//go:build unix

package gke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// eventuallyFails waits until CheckReady returns a failure. The pod goes through other states first, some of which have
// the same code.
func (w *world) eventuallyFails(t *testing.T, a agent.Agent, code string, permanent bool, message string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		err := w.CheckReady(ctx, a)
		var f *provisioning.PodFailure
		if !errors.As(err, &f) || f.Code != code || f.Permanent != permanent || !strings.Contains(f.Message, message) {
			return fmt.Errorf("error %w, want the failure %s, permanent %t, with %q", err, code, permanent, message)
		}
		return nil
	})
}

func TestCheckReady_ReportsPodFaults(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fault     cluster.Fault
		code      string
		permanent bool
		message   string
	}{
		{fault: cluster.CrashLoop, code: codeCrashLoop, permanent: true, message: "exit code 1."},
		{fault: cluster.OutOfMemory, code: codeOutOfMemory, permanent: true, message: "memory limit of 2 GiB"},
		{fault: cluster.ImagePull, code: codeImagePull, permanent: false, message: "cannot pull the agent's image"},
		{fault: cluster.Unschedulable, code: codeUnschedulable, permanent: false, message: "room"},
		{fault: cluster.NotReady, code: codeTimeout, permanent: false, message: "connections on $PORT (3000)"},
	} {
		t.Run(string(test.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
			w.suffer(t, a, test.fault)
			w.apply(t, a, testRuntimeInput())
			w.eventuallyFails(t, a, test.code, test.permanent, test.message)
			w.suffer(t, a, "")
			a.Rollout++ // a pod that crashed has its restarts counted: the new one starts from nothing
			w.apply(t, a, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
			w.awaitReady(t, a)
		})
	}
}

func TestCheckReady_WaitsForASlowStart(t *testing.T) {
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
			pod, err := w.admin.Pods(a.Namespace()).Get(ctx, podName, metav1.GetOptions{})
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
func TestCheckReady_AcceptsOnlyTheDesiredPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	next := a
	next.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: "debug"}}
	w.eventuallyFails(t, next, codeTimeout, false, "previous pod")
	w.apply(t, next, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
	w.awaitReady(t, next)
}

func TestApply_StopAndStartKeepsTheVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	pods := w.admin.Pods(a.Namespace())
	before, err := pods.Get(t.Context(), podName, metav1.GetOptions{})
	must(t, err)
	volume := func() string {
		t.Helper()
		claim, err := w.admin.PersistentVolumeClaims(a.Namespace()).Get(t.Context(), volumeName,
			metav1.GetOptions{})
		must(t, err)
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
func TestCheckReady_MissingObjectsAreNamespaceMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantUnavailable(t, w.CheckReady(t.Context(), w.newAgent(t)), provisioning.CodeNamespaceMissing)
}

// A pod that needs another look in a moment anyway costs one read, and a silent one three.
func TestCheckReady_ReadsNoEventsOfAYoungPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	for name, c := range map[string]struct {
		age  time.Duration
		want int
	}{
		"young": {want: 1},
		"old":   {age: time.Hour, want: 3},
	} {
		w.calls.breaks = func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			if !strings.HasSuffix(r.URL.Path, "/pods/"+podName) {
				return nil, nil
			}
			return answerObject(podWith(func(p *corev1.Pod) {
				p.APIVersion, p.Kind = "v1", "Pod"
				p.Annotations[annotationConfig] = configHash(a)
				p.CreationTimestamp = metav1.NewTime(time.Now().Add(-c.age))
			}))
		}
		w.calls.take()
		wantFailure(t, w.CheckReady(t.Context(), a), codeTimeout, false)
		if reads, writes := w.calls.take(); reads != c.want || writes != 0 {
			t.Errorf("%s pod: %d reads and %d writes, want %d and 0", name, reads, writes, c.want)
		}
	}
}

// answerObject is an API server's answer with one object.
func answerObject(object any) (*http.Response, error) {
	body, err := json.Marshal(object)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)),
	}, err
}
