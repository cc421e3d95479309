//go:build unix

package gke

import (
	"context"
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
	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
)

// What kubelets say.
const (
	saidScratch = `Usage of EmptyDir volume "tmp" exceeds the limit "256Mi". `
	saidTotal   = "Pod ephemeral local storage usage exceeds the total limit of containers 1088Mi. "
	saidLog     = `Container agent exceeded its local ephemeral storage limit "1Gi". `
	saidNode    = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
)

// evict ends an agent's pod as a kubelet does: the pod fails, and an event says why.
func (w *world) evict(t *testing.T, a agent.Agent, message string) {
	t.Helper()
	pod := w.pod(t, a)
	now := metav1.Now()
	must(t, errorOf(w.admin.Events(a.Namespace()).Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "evicted-" + string(pod.UID)},
		InvolvedObject: corev1.ObjectReference{
			Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, APIVersion: "v1",
		},
		Type: corev1.EventTypeWarning, Reason: "Evicted", Message: message, FirstTimestamp: now, LastTimestamp: now,
	}, metav1.CreateOptions{})))
	pods := w.admin.Pods(a.Namespace())
	clustertest.Eventually(t, func(ctx context.Context) error {
		next, err := pods.Get(ctx, podName, metav1.GetOptions{})
		if err != nil || next.UID != pod.UID {
			return err
		}
		next.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: message}
		if _, err = pods.UpdateStatus(ctx, next, metav1.UpdateOptions{}); err == nil {
			err = fmt.Errorf("the pod %s is not replaced", pod.UID)
		}
		return err
	})
}

// unreadyAgent has a pod that runs and does not become ready.
func (w *world) unreadyAgent(t *testing.T) agent.Agent {
	t.Helper()
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	w.suffer(t, a, cluster.NotReady)
	w.apply(t, a, testRuntimeInput())
	w.eventuallyFails(t, a, codeTimeout, false, "is running")
	return a
}

func TestCheckReady_ExplainsEvictionOfThePodBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.unreadyAgent(t)
	w.evict(t, a, saidScratch)
	w.eventuallyFails(t, a, codeScratchFull, false, "256 MiB to /tmp")
}

// The controller replaces an evicted pod immediately, and its log is gone with it.
func TestPods_ReportsEvictionOfThePodBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.unreadyAgent(t)
	for i := 1; i <= crashesUntilCertain; i++ {
		w.evict(t, a, saidScratch)
		permanent := i == crashesUntilCertain
		clustertest.Eventually(t, func(context.Context) error {
			pods := w.listPods(t)[a.ID]
			if len(pods) != 1 || pods[0].Failure == nil || pods[0].Failure.Code != codeScratchFull ||
				pods[0].Failure.Permanent != permanent {
				return fmt.Errorf("after %d evictions the pods are %+v, want one with %s, permanent %t", i, pods,
					codeScratchFull, permanent)
			}
			return nil
		})
	}
	p := w.listPods(t)[a.ID][0]
	must(t, w.KeepLogs(t.Context(), a.Cell, a.ID, p.Ended))
	for _, o := range w.kept(t, a) {
		e, _ := keptlog.Describe(o.Annotations)
		log, err := keptlog.Open(o.BinaryData[keptlog.Key])
		must(t, err)
		if text, err := io.ReadAll(log); err == nil && e.Reason == "Evicted" && strings.Contains(string(text), "/tmp") {
			return
		}
	}
	t.Errorf("the kept logs are %v, want one that says why the pod was evicted", w.kept(t, a))
}

func TestPods_ReportsAnEvictionOfAReadyAgentAsAnEndedRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	w.evict(t, a, saidTotal)
	w.awaitReady(t, a)
	pods := w.listPods(t)[a.ID]
	if len(pods) != 1 || len(pods[0].Ended) != 1 || pods[0].Ended[0].Reason != "Evicted" || pods[0].Failure != nil {
		t.Errorf("the pods are %+v, want one that is ready, after an evicted one", pods)
	}
}

func TestPods_ListsPodsWithoutTheEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.runningAgent(t)
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/events") {
			return nil, fmt.Errorf("no events today")
		}
		return nil, nil
	}
	if pods := w.listPods(t)[a.ID]; len(pods) != 1 {
		t.Errorf("the pods are %+v, want one", pods)
	}
}

func TestExplainEviction_BlamesNoAgentForItsMachine(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		saidScratch: "256 MiB to /tmp", saidTotal: "more than 1 GiB", saidLog: "more than 1 GiB", saidNode: "",
		`Container front exceeded its local ephemeral storage limit "64Mi". `: "",
	} {
		f := explainEviction(message)
		if got := f != nil; got != (want != "") || got && !strings.Contains(f.Message, want) {
			t.Errorf("%q is explained as %v, want %q", message, f, want)
		}
	}
}

// An eviction is no reason for what happens to a pod much later.
func TestReplaced_EndsWithTime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	e := corev1.Event{LastTimestamp: metav1.NewTime(at)}
	for after, want := range map[time.Duration]bool{
		0: true, 2 * time.Second: true, time.Hour: false, -time.Hour: false,
	} {
		if got := replaced(e, at.Add(after)); got != want {
			t.Errorf("a pod that was created %s after an eviction replaces it: %t, want %t", after, got, want)
		}
	}
}
