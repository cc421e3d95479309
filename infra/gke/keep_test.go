//go:build unix

package gke

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke/keptlog"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/agentlog"
	"agents.example/controlplane/shared/provisioning"
)

// crashing starts an agent that crashes, and returns a run of its container that has ended.
func (w *world) crashing(t *testing.T) (agent.Agent, provisioning.EndedContainer) {
	t.Helper()
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	w.suffer(t, a, cluster.CrashLoop)
	w.apply(t, a, testRuntimeInput())
	return a, w.lastEnded(t, a)
}

// lastEnded waits until the container of an agent that crashes waits for its restart, and returns the run before.
func (w *world) lastEnded(t *testing.T, a agent.Agent) (ended provisioning.EndedContainer) {
	t.Helper()
	// After its third restart the container waits for some time.
	clustertest.Eventually(t, func(ctx context.Context) error {
		var f *provisioning.PodFailure
		if err := w.CheckReady(ctx, a); !errors.As(err, &f) || !f.Permanent || len(f.Ended) == 0 || f.Ended[0].Held {
			return fmt.Errorf("error %w, want a crash loop", err)
		}
		ended = f.Ended[0]
		return nil
	})
	return ended
}

// kept returns the kept logs of an agent by the names of their objects.
func (w *world) kept(t *testing.T, a agent.Agent) map[string]*corev1.ConfigMap {
	t.Helper()
	list, err := w.admin.ConfigMaps(a.Namespace()).List(t.Context(), metav1.ListOptions{LabelSelector: keptlog.Label})
	must(t, err)
	found := map[string]*corev1.ConfigMap{}
	for i := range list.Items {
		found[list.Items[i].Name] = &list.Items[i]
	}
	return found
}

// count counts the kept logs of a container.
func count(kept map[string]*corev1.ConfigMap, container string) (n int) {
	for _, o := range kept {
		if e, _ := keptlog.Describe(o.Annotations); e.Container == container {
			n++
		}
	}
	return n
}

// fillLogs makes the kept logs of an agent: places maps their names to how many hours ago their containers ended.
func (w *world) fillLogs(t *testing.T, a agent.Agent, places map[string]int) {
	t.Helper()
	client, err := w.client(a.Cell)
	must(t, err)
	for name, hours := range places {
		e := agentlog.Ended{Container: name, EndedAt: time.Now().Add(-time.Duration(hours) * time.Hour)}
		err := client.create(t.Context(), core("ConfigMap", a.Namespace(), name), keptObject(a.ID, name, e, nil))
		must(t, err)
	}
}

func TestKeepLogs_KeepsALogOnceAmongManyWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ended := w.crashing(t)
	workers := []*world{newWorld(t), newWorld(t), newWorld(t), newWorld(t)}
	var all sync.WaitGroup
	for _, other := range workers {
		all.Go(func() {
			if err := other.KeepLastLogs(t.Context(), a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	kept := w.kept(t, a)
	if n := count(kept, ended.Container); n != 1 || len(kept) > 2 {
		t.Fatalf("the log is kept %d times, and %d logs are, want it once", n, len(kept))
	}
	for _, o := range kept {
		e, _ := keptlog.Describe(o.Annotations)
		if e.Container != ended.Container {
			continue
		}
		if e.ExitCode != 1 || e.Reason != "Error" || !e.EndedAt.Equal(ended.EndedAt.Truncate(time.Second)) {
			t.Errorf("the log says %+v of its container, want %+v", e, ended)
		}
		log, err := keptlog.Open(o.BinaryData[keptlog.Key])
		must(t, err)
		if text, err := io.ReadAll(log); err != nil || !strings.Contains(string(text), "container agent of image") {
			t.Errorf("the log is %q, %v, want the container's line", text, err)
		}
	}
	workers[0].calls.take()
	if err := workers[0].KeepLogs(t.Context(), a.Cell, a.ID, []provisioning.EndedContainer{ended}); err != nil {
		t.Error(err)
	}
	if reads, writes := workers[0].calls.take(); reads+writes > 0 {
		t.Errorf("a further look costs %d reads and %d writes, want none", reads, writes)
	}
}

// TestKeepLogs_LosesNothingWhenAWorkerDies ends a worker at each of its calls. Another worker goes on.
func TestKeepLogs_LosesNothingWhenAWorkerDies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, _ := w.crashing(t)
	for call := int32(1); ; call++ {
		ended := w.lastEnded(t, a)
		list := []provisioning.EndedContainer{ended}
		for name := range w.kept(t, a) {
			must(t, w.admin.ConfigMaps(a.Namespace()).Delete(t.Context(), name, metav1.DeleteOptions{}))
		}
		w.fillLogs(t, a, map[string]int{
			"agent-log-1": 3, "agent-log-2": 2, "agent-log-3": 9, "agent-log-4": 1, "agent-log-5": 8,
		})
		var calls atomic.Int32
		died := newWorld(t)
		died.calls.breaks = func(*http.Request, http.RoundTripper) (*http.Response, error) {
			if calls.Add(1) >= call {
				return nil, errors.New("the worker has died")
			}
			return nil, nil //nolint:nilnil // the API server answers
		}
		failed := died.KeepLogs(t.Context(), a.Cell, a.ID, list)
		must(t, newWorld(t).KeepLogs(t.Context(), a.Cell, a.ID, list))
		if w.lastEnded(t, a).Container != ended.Container { // its log is gone, too: this death proves nothing
			call--
			continue
		}
		kept := w.kept(t, a)
		if len(kept) != agentlog.MaxKept || count(kept, ended.Container) != 1 || count(kept, "agent-log-3") != 0 {
			t.Errorf("after a death at call %d: %d logs are kept, the new one %d times, the oldest %d times, "+
				"want 5, once, and never", call, len(kept), count(kept, ended.Container), count(kept, "agent-log-3"))
		}
		if failed == nil {
			if call < 4 {
				t.Errorf("the worker made only %d calls", call-1)
			}
			return
		}
	}
}

func TestKeepLogs_KeepsNoLogOfAnotherContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ended := w.crashing(t)
	ended.Container = agentlog.Container("former", "container")
	must(t, w.KeepLogs(t.Context(), a.Cell, a.ID, []provisioning.EndedContainer{ended}))
	if kept := w.kept(t, a); len(kept) > 0 {
		t.Errorf("%d logs are kept, want none: the pod has another container's", len(kept))
	}
}

// A kubelet that has just started says that there is no such pod. Its log is there a minute later.
func TestKeepLogs_AsksAgainAfterAKubeletsRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, ended := w.crashing(t)
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/log") {
			return nil, nil //nolint:nilnil // the API server answers
		}
		answer, err := answerObject(apierrors.NewNotFound(corev1.Resource("pods"), podName).Status())
		answer.StatusCode = http.StatusNotFound
		return answer, err
	}
	list := []provisioning.EndedContainer{ended}
	if err := w.KeepLogs(t.Context(), a.Cell, a.ID, list); err == nil {
		t.Error("KeepLogs of a pod that its kubelet does not know: no error")
	}
	w.calls.breaks = nil
	if err := w.KeepLogs(t.Context(), a.Cell, a.ID, list); err != nil || count(w.kept(t, a), ended.Container) != 1 {
		t.Errorf("the log is not kept later (%v)", err)
	}
}

func TestKeptLogs_AreNeitherDriftNorLeftovers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	w.fillLogs(t, a, map[string]int{"agent-log-1": 1, "agent-log-2": 8 * 24})
	a.Generation++
	w.apply(t, a, testRuntimeInput())
	w.prune(t, a)
	if kept := w.kept(t, a); len(kept) != 2 {
		t.Fatalf("%d logs are kept after Prune, want 2", len(kept))
	}
	s, err := w.Objects(t.Context(), a.Cell)
	must(t, err)
	if found := s.Differences(a); len(found) > 0 {
		t.Errorf("differences: %+v, want none", found)
	}
	var old, stale provisioning.KeptLog
	for _, l := range s.KeptLogs() {
		if l.AgentID == a.ID && l.Name == "agent-log-2" {
			old, stale = l, l
		}
	}
	stale.Version = "1"
	if err := w.DropLog(t.Context(), a.Cell, stale); err != nil || len(w.kept(t, a)) != 2 {
		t.Errorf("an object that has changed was deleted, or: %v", err)
	}
	for range 2 { // the second time it is gone
		if err := w.DropLog(t.Context(), a.Cell, old); err != nil || len(w.kept(t, a)) != 1 {
			t.Errorf("%d logs are kept, %v, want one", len(w.kept(t, a)), err)
		}
	}
}

func TestKeepLogs_IgnoreNamespacesThatAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	ended := provisioning.EndedContainer{Ended: agentlog.Ended{Container: "c", EndedAt: time.Now()}}
	if err := w.KeepLogs(t.Context(), a.Cell, a.ID, []provisioning.EndedContainer{ended}); err != nil {
		t.Error(err)
	}
	if err := w.KeepLastLogs(t.Context(), a); err != nil {
		t.Error(err)
	}
}

func TestKeptObject_HasRoomForAnyLog(t *testing.T) {
	t.Parallel()
	log := bytes.Repeat([]byte{'x'}, agentlog.MaxKeptBytes)
	o := keptObject(testID, "agent-log-1", agentlog.Ended{Container: "c", EndedAt: time.Now()}, log)
	if size := o.Size(); size > keptlog.MaxObject {
		t.Errorf("an object of a log that cannot be compressed has %d bytes, want at most %d", size, keptlog.MaxObject)
	}
}
