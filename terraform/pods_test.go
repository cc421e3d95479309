//go:build unix

package terraform_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
	"agents.example/controlplane/terraform/cell"
)

// Names of the policies about pods.
const (
	needsNetwork = "'agent-pod-network'"
	needsReader  = "binding 'agent-pod-network-reader'"
	needsQuota   = "'agent-pod-quota'"
)

// placePod creates a pod as the StatefulSet of an agent does, by its label.
func placePod(namespace, name string) attempt {
	return createObject("pods", namespace, `
apiVersion: v1
kind: Pod
metadata: {name: probe, labels: {app.kubernetes.io/name: `+name+`}}
spec:
  automountServiceAccountToken: false
  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: agent
      image: none
      resources: {limits: {cpu: 1m, memory: 1Mi, ephemeral-storage: 1Mi}}
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
`)
}

// TestPolicies_StartNoPodWithoutIsolation: workers may delete namespaces. One that was taken over makes it again with
// the workload alone. Once the quota and the network policy are there, the agent starts without another write.
func TestPolicies_StartNoPodWithoutIsolation(t *testing.T) {
	t.Parallel()
	f, ctx, a := policyCell(t), t.Context(), newAgent()
	clusters := f.clusters(t, unboundReconciler)
	others := slices.DeleteFunc(agent.StageNames(), func(s agent.StageName) bool { return s == agent.StagePolicy })
	if err := applyStages(ctx, clusters, a, others); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := get("pods", a.Namespace(), "agent-0")(ctx, f.admin); err == nil {
			t.Fatal("the pod of an agent without a network policy and a quota was created")
		}
		return f.refusedPod(ctx, a.Namespace())
	})
	if err := clusters.Apply(ctx, a, agent.StagePolicy, provisioning.RuntimeInput{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { return clusters.CheckReady(ctx, a) })
}

// refusedPod returns an error until an event says that a policy about pods refused the pod of a namespace's workload.
func (f cellFixture) refusedPod(ctx context.Context, namespace string) error {
	events, err := at(f.admin, "events", namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		message, _, _ := unstructured.NestedString(e.Object, "message")
		if strings.Contains(message, needsNetwork) || strings.Contains(message, needsQuota) {
			return nil
		}
	}
	return fmt.Errorf("none of %d events says that the pod was refused", len(events.Items))
}

// TestPolicies_RefusePodsThatNothingRestricts has namespaces that never had one of the things that pods need.
func TestPolicies_RefusePodsThatNothingRestricts(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	clusters := f.clusters(t, unboundReconciler)
	both, all := []any{"Ingress", "Egress"}, []string{"pods", "limits.cpu", "limits.memory"}
	for name, row := range map[string]struct {
		pod string
		// directions are those of the network policy, and bounds what the quota has; nil if there is none.
		directions []any
		bounds     []string
		want       string // empty if the pod is admitted
	}{
		"everything":          {pod: "agent", directions: both, bounds: all},
		"no network policy":   {pod: "agent", bounds: all, want: needsNetwork},
		"no quota":            {pod: "agent", directions: both, want: needsQuota},
		"an open way out":     {pod: "agent", directions: both[:1], bounds: all, want: needsNetwork},
		"an open way in":      {pod: "agent", directions: both[1:], bounds: all, want: needsNetwork},
		"any number of pods":  {pod: "agent", directions: both, bounds: all[1:], want: needsQuota},
		"pods with any limit": {pod: "agent", directions: both, bounds: all[:2], want: needsQuota},
		// The agent's own network policy leaves out pods with this label.
		"no network policy of the reader": {pod: "reader", directions: both, bounds: all, want: needsReader},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAgent()
			if err := clusters.Apply(t.Context(), a, agent.StageNamespace, provisioning.RuntimeInput{}); err != nil {
				t.Fatal(err)
			}
			f.restrictPods(t, a.Namespace(), row.directions, row.bounds)
			clustertest.Eventually(t, func(ctx context.Context) error {
				err := placePod(a.Namespace(), row.pod)(ctx, f.admin)
				switch {
				case row.want == "":
					return err
				case err == nil:
					t.Fatalf("the pod is admitted, want a refusal by %s", row.want)
				case !strings.Contains(err.Error(), row.want): // the API server learns of the objects a moment later
					return fmt.Errorf("error %w, want a refusal by %s", err, row.want)
				}
				return nil
			})
		})
	}
}

// restrictPods creates a network policy of some directions, and a quota with some bounds, unless they are nil.
func (f cellFixture) restrictPods(t *testing.T, namespace string, directions []any, bounds []string) {
	t.Helper()
	hard := map[string]any{}
	for _, bound := range bounds {
		hard[bound] = "4Mi" // of any unit
	}
	create := func(apiVersion, kind string, spec map[string]any) {
		if err := apply(t.Context(), f.admin, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": spec,
			"metadata": map[string]any{"name": "agent", "namespace": namespace},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if directions != nil {
		create("networking.k8s.io/v1", "NetworkPolicy",
			map[string]any{"podSelector": map[string]any{}, "policyTypes": directions})
	}
	if bounds != nil {
		create("v1", "ResourceQuota", map[string]any{"hard": hard})
	}
}

// TestPolicies_LeaveOtherPodsAlone: the cell's own pods and those of the system have other network policies, or none.
func TestPolicies_LeaveOtherPodsAlone(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	for _, namespace := range []string{cell.CanaryNamespace, cell.GatewayNamespace, "agent-warm", "kube-system"} {
		clustertest.Eventually(t, func(ctx context.Context) error { return placePod(namespace, "agent")(ctx, f.admin) })
	}
}
