//go:build unix

package terraform_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// steps are what a worker does, in order. Each is repeated until it succeeds.
type steps []struct {
	name string
	do   func(ctx context.Context) error
}

func (all steps) run(t *testing.T) {
	t.Helper()
	for _, step := range all {
		clustertest.Eventually(t, func(ctx context.Context) error {
			if err := step.do(ctx); err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			return nil
		})
	}
}

// taken returns an agent that runs, with a snapshot that is ready.
func taken(t *testing.T, clusters *gke.Clusters) (agent.Agent, agent.Snapshot) {
	t.Helper()
	a := newAgent()
	if err := applyAll(t.Context(), clusters, a); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
	a.LastReadyIsolation = agent.Plain
	s, err := a.RequestSnapshot(agent.SnapshotRequest{Consistency: agent.ConsistentAfterCrash}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		seen, err := clusters.Snapshot(ctx, a, s, false)
		if err == nil && !seen.Ready {
			err = fmt.Errorf("the snapshot is not ready: %+v", seen)
		}
		s.Handle = seen.Handle
		return err
	})
	return a, s
}

// leave deletes what a cell has of an agent, and fails until it is gone.
func leave(ctx context.Context, clusters *gke.Clusters, a agent.Agent) error {
	if err := clusters.Delete(ctx, a); err != nil {
		return err
	}
	gone, err := clusters.CheckGone(ctx, a)
	if err == nil && !gone.All() {
		err = fmt.Errorf("left: %+v", gone)
	}
	return err
}

// TestPolicies_AdmitAMoveToAnotherCell takes an agent's snapshot along, as a worker does it in two cells.
func TestPolicies_AdmitAMoveToAnotherCell(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	clusters := f.clusters(t, unboundReconciler)
	a, s := taken(t, clusters)
	steps{
		{name: "retain", do: func(ctx context.Context) error { return clusters.RetainSnapshot(ctx, a, s, true) }},
		{name: "leave", do: func(ctx context.Context) error { return leave(ctx, clusters, a) }},
		{name: "arrive", do: func(ctx context.Context) error {
			return clusters.Apply(ctx, a, agent.StageNamespace, provisioning.RuntimeInput{})
		}},
		{name: "adopt", do: func(ctx context.Context) error { return clusters.AdoptSnapshot(ctx, a, s) }},
		{name: "own", do: func(ctx context.Context) error { return clusters.RetainSnapshot(ctx, a, s, false) }},
		{name: "delete", do: func(ctx context.Context) error {
			gone, err := clusters.DeleteSnapshot(ctx, a, s)
			if err == nil && !gone {
				err = errors.New("the snapshot is not gone")
			}
			return err
		}},
	}.run(t)
}

// TestPolicies_AdmitTheDeletionOfAnAgentThatMoves deletes an agent in a cell that has its namespace no longer, and two
// contents: one that was retained, and one that was adopted and that the snapshot controller forgot.
func TestPolicies_AdmitTheDeletionOfAnAgentThatMoves(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	clusters := f.clusters(t, unboundReconciler)
	a, s := taken(t, clusters)
	var forgotten unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(`
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotContent
metadata:
  name: `+a.Namespace()+`-snapshot-aaaaaaaa
  finalizers: [snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection]
  labels:
    app.kubernetes.io/managed-by: agent-control-plane
    agents.example/agent-id: `+a.ID+`
    agents.example/snapshot: snapshot-aaaaaaaa
spec:
  deletionPolicy: Retain
  driver: pd.csi.storage.gke.io
  source: {snapshotHandle: h}
  volumeSnapshotRef: {name: snapshot-aaaaaaaa, namespace: `+a.Namespace()+`, uid: gone}
`), &forgotten.Object); err != nil {
		t.Fatal(err)
	}
	if _, err := at(f.admin, "volumesnapshotcontents", "").Create(t.Context(), &forgotten,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	steps{
		{name: "retain", do: func(ctx context.Context) error { return clusters.RetainSnapshot(ctx, a, s, true) }},
		{name: "leave", do: func(ctx context.Context) error { return clusters.Delete(ctx, a) }},
		{name: "await", do: func(ctx context.Context) error {
			gone, err := clusters.CheckGone(ctx, a)
			if err == nil && !gone.Namespace {
				err = fmt.Errorf("gone: %+v", gone)
			}
			return err
		}},
		{name: "own", do: func(ctx context.Context) error { return clusters.RetainSnapshot(ctx, a, s, false) }},
		{name: "delete", do: func(ctx context.Context) error { return leave(ctx, clusters, a) }},
	}.run(t)
}
