//go:build unix

package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/kubeclient"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// patience is how long a test waits for what takes a second on an idle machine.
const patience = 3 * time.Minute

// shared is the one real cluster of the package's tests. The first test that needs it starts it.
var shared clustertest.Shared

// world is one test's access to the cluster: its Clusters, and an administrator's client.
type world struct {
	*Clusters
	admin *kubeclient.Client
	calls *calls
}

// calls counts a world's requests to the API server, and lets a test break them.
type calls struct {
	mu     sync.Mutex
	reads  int
	writes int
	// breaks answers a request instead of the API server, unless it answers nil. It may change the request.
	breaks func(*http.Request, http.RoundTripper) (*http.Response, error)
}

// way is the one to the API server of a cell, on which its calls are counted.
type way struct {
	*calls
	next http.RoundTripper
}

func (c way) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	if r.Method == http.MethodGet {
		c.reads++
	} else {
		c.writes++
	}
	breaks := c.breaks
	c.mu.Unlock()
	if breaks != nil {
		if response, err := breaks(r, c.next); response != nil || err != nil {
			return response, err
		}
	}
	return c.next.RoundTrip(r)
}

// WrappedRoundTripper lets idle connections be closed.
func (c way) WrappedRoundTripper() http.RoundTripper { return c.next }

func (c *calls) take() (reads, writes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reads, writes = c.reads, c.writes
	c.reads, c.writes = 0, 0
	return reads, writes
}

// newWorld connects to the shared cluster.
func newWorld(t *testing.T, change ...func(*Settings)) *world {
	t.Helper()
	running := shared.Start(t)
	s := testSettings()
	s.Cells = []Cell{{Name: "local", Kubeconfig: running.Kubeconfig}}
	for _, f := range change {
		f(&s)
	}
	w := &world{Clusters: testClusters(t, s), admin: clustertest.Client(t, running.Kubeconfig), calls: &calls{}}
	w.wrapTransports(func(next http.RoundTripper) http.RoundTripper { return way{w.calls, next} })
	t.Cleanup(func() { _ = w.Close() })
	class := &kubeclient.VolumeSnapshotClass{
		ObjectMeta: metav1.ObjectMeta{Name: snapshotClass}, Driver: snapshotDriver, DeletionPolicy: "Delete",
	}
	if _, err := w.admin.VolumeSnapshotClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return w
}

// newAgent makes the record of an agent that no test knows yet, and takes its namespace away in the end.
func (w *world) newAgent(t *testing.T) agent.Agent {
	t.Helper()
	a := testAgent()
	a.ID = uuid.NewString()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.admin.Namespaces().Delete(ctx, a.Namespace(), metav1.DeleteOptions{})
	})
	return a
}

// apply applies stages, all when none is named.
func (w *world) apply(t *testing.T, a agent.Agent, input provisioning.RuntimeInput, stages ...agent.StageName) {
	t.Helper()
	if len(stages) == 0 {
		stages = agent.StageNames()
	}
	for _, stage := range stages {
		if err := w.Apply(t.Context(), a, stage, input); err != nil {
			t.Fatalf("%s: %v", stage, err)
		}
	}
}

// readyAgent applies all objects of a new agent, and waits for its pod.
func (w *world) readyAgent(t *testing.T) agent.Agent {
	t.Helper()
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	return a
}

func (w *world) awaitReady(t *testing.T, a agent.Agent) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error { return w.CheckReady(ctx, a) })
}

// awaitGone waits until nothing of an agent is left.
func (w *world) awaitGone(t *testing.T, a agent.Agent) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		gone, err := w.CheckGone(ctx, a)
		if err == nil && !gone.All() {
			err = errors.New("the agent's objects still exist")
		}
		return err
	})
}

// deleteUntilGone deletes an agent again and again, as workers do, until nothing of it is left.
func (w *world) deleteUntilGone(t *testing.T, a agent.Agent) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := w.Delete(ctx, a); err != nil {
			return err
		}
		gone, err := w.CheckGone(ctx, a)
		if err == nil && !gone.All() {
			err = fmt.Errorf("the agent's objects still exist: %+v", gone)
		}
		return err
	})
}

// awaitGoneButSnapshots waits until only the snapshots of an agent are left.
func (w *world) awaitGoneButSnapshots(t *testing.T, a agent.Agent) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		gone, err := w.CheckGone(ctx, a)
		if err == nil && gone != (provisioning.Gone{Namespace: true, Volume: true}) {
			err = fmt.Errorf("gone %+v, want all but the snapshot", gone)
		}
		return err
	})
}

// awaitAbsent waits until the cluster has no object of a name.
func awaitAbsent[T any](
	t *testing.T, get func(context.Context, string, metav1.GetOptions) (T, error), name string,
) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		if _, err := get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s is still there: %w", name, err)
		}
		return nil
	})
}

// suffer has all pods of an agent's namespace suffer from a fault; "" heals them.
func (w *world) suffer(t *testing.T, a agent.Agent, f cluster.Fault) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, cluster.FaultAnnotation, f)
	_, err := w.admin.Namespaces().Patch(t.Context(), a.Namespace(), types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	must(t, err)
}
