//go:build unix

package gke

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/diagnosis"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func (w *world) listPods(t *testing.T) map[string][]provisioning.Pod {
	t.Helper()
	pods, err := w.Pods(t.Context(), "local")
	must(t, err)
	seen := map[string][]provisioning.Pod{}
	for _, p := range pods {
		seen[p.AgentID] = append(seen[p.AgentID], p)
	}
	return seen
}

func TestPods_ReportsTheSameFailuresAsCheckReady(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault     cluster.Fault
		code      string
		permanent bool
		message   string
		// evidence and title are of the diagnosis.
		evidence []string
		title    string
	}{
		{
			fault: cluster.CrashLoop, code: codeCrashLoop, permanent: true, message: "exit code 1",
			evidence: []string{"reason: Error", "exit code: 1"}, title: "exits soon",
		},
		{
			fault: cluster.OutOfMemory, code: codeOutOfMemory, permanent: true, message: "memory limit of 2 GiB",
			evidence: []string{"reason: OOMKilled", "exit code: 137"}, title: "more memory",
		},
		{
			fault: cluster.ImagePull, code: codeImagePull, permanent: false, message: "cannot pull the agent's image",
			evidence: []string{"reason: ImagePullBackOff"}, title: "cannot get the agent's image",
		},
		{
			fault: cluster.Unschedulable, code: codeUnschedulable, permanent: false, message: "room",
			evidence: []string{"reason: Unschedulable"}, title: "no room",
		},
		{
			fault: cluster.NotReady, code: codeTimeout, permanent: false, message: "connections on $PORT (3000)",
			evidence: []string{"reason: ContainersNotReady"}, title: "did not become ready in time",
		},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
			w.suffer(t, a, c.fault)
			w.apply(t, a, testRuntimeInput())
			clustertest.Eventually(t, func(context.Context) error {
				pods := w.listPods(t)[a.ID]
				if len(pods) != 1 || pods[0].Failure == nil {
					return fmt.Errorf("the pods %+v, want one that fails", pods)
				}
				if f := pods[0].Failure; f.Code != c.code || f.Permanent != c.permanent ||
					!strings.Contains(f.Message, c.message) {
					return fmt.Errorf("the pod fails with %w, permanent %t; want %s, permanent %t, and %q", f,
						f.Permanent, c.code, c.permanent, c.message)
				}
				told := diagnosis.Of(diagnosis.Facts{Agent: agent.Agent{Status: agent.Error, Failure: &agent.Failure{
					Code: pods[0].Failure.Code, Message: pods[0].Failure.Message, Observed: pods[0].Failure.Observed,
				}}})
				for _, fact := range c.evidence {
					if !slices.Contains(told.Causes[0].Evidence, fact) {
						return fmt.Errorf("the evidence of the diagnosis is %q, want %q", told.Causes[0].Evidence, fact)
					}
				}
				if !strings.Contains(told.Summary, c.title) {
					t.Errorf("the diagnosis says %q, want %q in it", told.Summary, c.title)
				}
				return nil
			})
		})
	}
}

// A page has one pod, and the list expires once.
func TestPods_ListsAllPagesAndIgnoresForeignPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agents := []agent.Agent{w.newAgent(t), w.newAgent(t), w.newAgent(t)}
	for _, a := range agents {
		w.apply(t, a, testRuntimeInput())
	}
	for _, a := range agents {
		w.awaitReady(t, a)
	}
	w.createImpostorPod(t, agents[0])
	var expired atomic.Bool
	var pages atomic.Int32
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		query := r.URL.Query()
		if query.Get("continue") != "" && !expired.Swap(true) {
			return answer(http.StatusGone, metav1.StatusReasonExpired, "the list is too old"), nil
		}
		pages.Add(1)
		query.Set("limit", "1")
		r.URL.RawQuery = query.Encode()
		return nil, nil
	}
	seen := w.listPods(t)
	for _, a := range agents {
		if pods := seen[a.ID]; len(pods) != 1 || pods[0].Failure != nil || !w.Current(a, pods[0]) {
			t.Errorf("the pods %+v, want one that is ready and current", pods)
		}
	}
	if !expired.Load() || pages.Load() < 4 {
		t.Errorf("%d pages", pages.Load())
	}
}

// createImpostorPod makes a pod with the labels of the agent's in a namespace that isn't the agent's.
func (w *world) createImpostorPod(t *testing.T, a agent.Agent) {
	t.Helper()
	home := w.newAgent(t)
	w.apply(t, home, testRuntimeInput(), agent.StageNamespace, agent.StagePolicy, agent.StageIdentity)
	model, err := w.admin.Pods(a.Namespace()).Get(t.Context(), podName, metav1.GetOptions{})
	must(t, err)
	fake := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: podName, Labels: model.Labels,
		Annotations: model.Annotations,
	}, Spec: model.Spec}
	fake.Spec.NodeName = ""
	must(t, errorOf(w.admin.Pods(home.Namespace()).Create(t.Context(), fake, metav1.CreateOptions{})))
}

func TestPods_ListIsCompleteOrAnError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *Settings) {
		s.Cells = append(s.Cells, Cell{Name: "unreachable", Kubeconfig: "testdata/kubeconfig.yaml"})
	})
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	w.apply(t, w.newAgent(t), testRuntimeInput())
	w.awaitReady(t, a)
	want := func(name, cell string) {
		t.Helper()
		if pods, err := w.Pods(t.Context(), cell); !fault.Is(err, fault.Unavailable) || pods != nil {
			t.Errorf("%s: %d pods and %v, want none and Unavailable", name, len(pods), err)
		}
	}
	want("a cell that can't be reached", "unreachable")
	a.Cell = "unreachable"
	if p, err := w.Existence(t.Context(), a); !fault.Is(err, fault.Unavailable) || p != (provisioning.Existence{}) {
		t.Errorf("a cell that can't be reached has %+v, %v; want Unavailable", p, err)
	}
	a.Cell = "local"
	for name, breaks := range map[string]func(*http.Request, http.RoundTripper) (*http.Response, error){
		"a page that never comes": func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("continue") != "" {
				return answer(http.StatusGone, metav1.StatusReasonExpired, "the list is too old"), nil
			}
			query.Set("limit", "1")
			r.URL.RawQuery = query.Encode()
			return nil, nil
		},
		"a refusal": func(*http.Request, http.RoundTripper) (*http.Response, error) {
			return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, "no"), nil
		},
		"a pod that can't be read": func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
			r.Header.Set("Accept", "application/json")
			return withInvalidItems(next.RoundTrip(r))
		},
	} {
		w.calls.mu.Lock()
		w.calls.breaks = breaks
		w.calls.mu.Unlock()
		want(name, "local")
	}
	w.calls.mu.Lock()
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/pods/"+podName) {
			return answer(http.StatusInternalServerError, metav1.StatusReasonInternalError, "no"), nil
		}
		return nil, nil
	}
	w.calls.mu.Unlock()
	if p, err := w.Existence(t.Context(), a); !fault.Is(err, fault.Unavailable) || p != (provisioning.Existence{}) {
		t.Errorf("a pod that can't be asked for: %+v, %v; want Unavailable", p, err)
	}
}

// The namespace counts as gone although its pod still exists.
func TestExistence_TerminatingNamespaceCountsAsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)
	pods := w.admin.Pods(a.Namespace())
	hold := func(patch string) {
		t.Helper()
		if _, err := pods.Patch(t.Context(), podName, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	hold(`{"metadata":{"finalizers":["example.com/hold"]}}`)
	must(t, w.admin.Namespaces().Delete(t.Context(), a.Namespace(), metav1.DeleteOptions{}))
	if p, err := w.Existence(t.Context(), a); err != nil || p != (provisioning.Existence{}) {
		t.Errorf("%+v, %v; want neither", p, err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		if p, err := pods.Get(ctx, podName, metav1.GetOptions{}); err != nil || p.DeletionTimestamp == nil {
			return fmt.Errorf("the pod is not told to stop (%w)", err)
		}
		return nil
	})
	if seen := w.listPods(t)[a.ID]; len(seen) != 1 || seen[0].Failure == nil {
		t.Errorf("a pod that is told to stop: %+v, want it not to be ready", seen)
	}
	hold(`{"metadata":{"finalizers":null}}`)
}

// withInvalidItems is a list whose objects have no form that a pod can have.
func withInvalidItems(response *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var list struct {
		Kind, APIVersion string
		Metadata         map[string]any
		Items            []map[string]any
	}
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		return nil, err
	}
	for _, item := range list.Items {
		item["spec"] = "none"
	}
	body, err := json.Marshal(map[string]any{
		"kind": list.Kind, "apiVersion": list.APIVersion,
		"metadata": list.Metadata, "items": list.Items,
	})
	response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	response.Header.Del("Content-Length")
	return response, err
}
