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
	"k8s.io/apimachinery/pkg/types"

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

// TestPolicies_RefusePodsThatNothingRestricts takes from a namespace what its pods need, one by one.
func TestPolicies_RefusePodsThatNothingRestricts(t *testing.T) {
	t.Parallel()
	f := policyCell(t)
	clusters := f.clusters(t, unboundReconciler)
	drop := func(resource string) func(ctx context.Context, namespace string) error {
		return func(ctx context.Context, namespace string) error {
			return at(f.admin, resource, namespace).Delete(ctx, "agent", metav1.DeleteOptions{})
		}
	}
	change := func(resource, spec string) func(ctx context.Context, namespace string) error {
		return func(ctx context.Context, namespace string) error {
			_, err := at(f.admin, resource, namespace).Patch(ctx, "agent", types.MergePatchType,
				[]byte(`{"spec":`+spec+`}`), metav1.PatchOptions{})
			return err
		}
	}
	for name, row := range map[string]struct {
		change func(ctx context.Context, namespace string) error
		pod    string
		want   string
	}{
		"no network policy":   {change: drop("networkpolicies"), pod: "agent", want: needsNetwork},
		"no quota":            {change: drop("resourcequotas"), pod: "agent", want: needsQuota},
		"an open way out":     {change: change("networkpolicies", `{"policyTypes":["Ingress"]}`), pod: "agent", want: needsNetwork},
		"an open way in":      {change: change("networkpolicies", `{"policyTypes":["Egress"]}`), pod: "agent", want: needsNetwork},
		"any number of pods":  {change: change("resourcequotas", `{"hard":{"pods":null}}`), pod: "agent", want: needsQuota},
		"pods with any limit": {change: change("resourcequotas", `{"hard":{"limits.memory":null}}`), pod: "agent", want: needsQuota},
		// The agent's own network policy leaves out pods with this label.
		"no network policy of the reader": {
			change: func(context.Context, string) error { return nil }, pod: "reader", want: needsReader,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, a := t.Context(), newAgent()
			for _, stage := range []agent.StageName{agent.StageNamespace, agent.StagePolicy} {
				if err := clusters.Apply(ctx, a, stage, provisioning.RuntimeInput{}); err != nil {
					t.Fatal(err)
				}
			}
			clustertest.Eventually(t, func(ctx context.Context) error { return placePod(a.Namespace(), "agent")(ctx, f.admin) })
			if err := row.change(ctx, a.Namespace()); err != nil {
				t.Fatal(err)
			}
			clustertest.Eventually(t, func(ctx context.Context) error {
				err := placePod(a.Namespace(), row.pod)(ctx, f.admin)
				if err == nil || !strings.Contains(err.Error(), row.want) {
					return fmt.Errorf("error %w, want a refusal by %s", err, row.want)
				}
				return nil
			})
		})
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
