//go:build unix

package gke

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/provisioning"
)

func (w *world) findPlacement(t *testing.T, a agent.Agent) *provisioning.Placement {
	t.Helper()
	all, err := w.Namespaces(t.Context())
	must(t, err)
	for _, p := range all {
		if p.AgentID == a.ID {
			return &p
		}
	}
	return nil
}

// A page has one namespace, and the list expires once.
func TestNamespaces_ListsAllPagesAndDeletesOnlyTheListedUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	agents := []agent.Agent{w.newAgent(t), w.newAgent(t), w.newAgent(t)}
	for _, a := range agents {
		w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	}
	var expired atomic.Bool
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		query := r.URL.Query()
		if query.Get("continue") != "" && !expired.Swap(true) {
			return answer(http.StatusGone, metav1.StatusReasonExpired, "the list is too old"), nil
		}
		if query.Has("limit") {
			query.Set("limit", "1")
			r.URL.RawQuery = query.Encode()
		}
		return nil, nil
	}
	all, err := w.Namespaces(t.Context())
	must(t, err)
	seen := map[string]int{}
	for _, p := range all {
		seen[p.AgentID]++
		if p.Cell != "local" || p.UID == "" || time.Since(p.CreatedAt) > time.Hour {
			t.Errorf("placement %+v", p)
		}
	}
	for _, a := range agents {
		if seen[a.ID] != 1 {
			t.Errorf("agent listed %d times, want once", seen[a.ID])
		}
	}
	if !expired.Load() {
		t.Error("the list had one page")
	}
	p := w.findPlacement(t, agents[0])
	other := *p
	other.UID = "5b9f8c0a-0000-0000-0000-000000000000"
	if err := w.DeleteNamespace(t.Context(), other); err != nil {
		t.Errorf("a namespace that was replaced: %v", err)
	}
	there, err := w.admin.Namespaces().Get(t.Context(), agents[0].Namespace(), metav1.GetOptions{})
	if err != nil || there.DeletionTimestamp != nil {
		t.Fatalf("a namespace with another uid was deleted (%v)", err)
	}
	for range 2 {
		must(t, w.DeleteNamespace(t.Context(), *p))
	}
	awaitAbsent(t, w.admin.Namespaces().Get, agents[0].Namespace())
}

// TestNamespaces_ListsOnlyItsOwnDatabase: another control plane, or this one on another database, may use the cluster.
func TestNamespaces_ListsOnlyItsOwnDatabase(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t, func(s *Settings) { s.Database = "project-other-00000000" })
	own, foreign, unlabeled := w.newAgent(t), w.newAgent(t), w.newAgent(t)
	w.apply(t, own, testRuntimeInput(), agent.StageNamespace)
	other.apply(t, foreign, testRuntimeInput(), agent.StageNamespace)
	w.apply(t, unlabeled, testRuntimeInput(), agent.StageNamespace)
	_, err := w.admin.Namespaces().Patch(t.Context(), unlabeled.Namespace(), types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"agents.example/database":null}}}`), metav1.PatchOptions{})
	must(t, err)
	for name, c := range map[string]struct {
		world *world
		a     agent.Agent
		want  bool
	}{
		"its own":                     {world: w, a: own, want: true},
		"another database's":          {world: w, a: foreign},
		"an unlabeled one":            {world: w, a: unlabeled},
		"the other one lists foreign": {world: other, a: foreign, want: true},
	} {
		if got := c.world.findPlacement(t, c.a) != nil; got != c.want {
			t.Errorf("%s: listed %t, want %t", name, got, c.want)
		}
	}
	w.apply(t, unlabeled, testRuntimeInput(), agent.StageNamespace)
	if w.findPlacement(t, unlabeled) == nil {
		t.Error("an unlabeled namespace is not listed after it was applied again")
	}
}

func TestNamespaces_ListIsCompleteOrAnError(t *testing.T) {
	t.Parallel()
	t.Run("a page", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(t, w.newAgent(t), testRuntimeInput(), agent.StageNamespace)
		w.apply(t, w.newAgent(t), testRuntimeInput(), agent.StageNamespace)
		w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
			query := r.URL.Query()
			if query.Get("continue") != "" {
				return answer(http.StatusGone, metav1.StatusReasonExpired, "the list is too old"), nil
			}
			query.Set("limit", "1")
			r.URL.RawQuery = query.Encode()
			return nil, nil
		}
		all, err := w.Namespaces(t.Context())
		if !fault.Is(err, fault.Unavailable) || all != nil {
			t.Errorf("%d namespaces and error %v, want none and Unavailable", len(all), err)
		}
	})
	t.Run("a cell", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, func(s *Settings) {
			s.Cells = append(s.Cells, Cell{Name: "unreachable", Kubeconfig: "testdata/kubeconfig.yaml"})
		})
		w.apply(t, w.newAgent(t), testRuntimeInput(), agent.StageNamespace)
		all, err := w.Namespaces(t.Context())
		if !fault.Is(err, fault.Unavailable) || all != nil {
			t.Errorf("%d namespaces and error %v, want none and Unavailable", len(all), err)
		}
	})
}
