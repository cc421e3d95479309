//go:build unix

package gke

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/egress"
)

// restrictedAgent applies all objects of an agent with a list of names and a brokered secret, and waits for its pod.
func (w *world) restrictedAgent(t *testing.T) agent.Agent {
	t.Helper()
	a := w.newAgent(t)
	broker(&a, "TOKEN", "api.example.com")
	a.Status, a.Generation = agent.Running, 3
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	a.LastReadyIsolation = agent.Plain
	return a
}

// pod returns the pod of the agent once it is the one that the record asks for.
func (w *world) pod(t *testing.T, a agent.Agent) (pod *corev1.Pod) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) (err error) {
		pod, err = w.admin.Pods(a.Namespace()).Get(ctx, podName, metav1.GetOptions{})
		if err == nil && pod.Annotations[annotationConfig] != configHash(a) {
			err = fmt.Errorf("the pod %s has another configuration", pod.UID)
		}
		return err
	})
	return pod
}

// TestApply_ReplacesThePodOfAnotherWayOutOnly: the gate takes over another list and another value of a brokered secret.
func TestApply_ReplacesThePodOfAnotherWayOutOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.restrictedAgent(t)
	for _, row := range []struct {
		name     string
		change   func(*agent.Agent)
		replaces bool
	}{
		{name: "another list", change: func(a *agent.Agent) { a.Egress.Allow = []string{"*.example.com"} }},
		{name: "a denied name", change: func(a *agent.Agent) { a.Egress.Deny = []string{"c.example.com"} }},
		{name: "another value", change: func(a *agent.Agent) { a.Injected[0].Version++ }},
		{
			name: "another host of the secret", replaces: true,
			change: func(a *agent.Agent) { broker(a, "TOKEN", "b.example.com") },
		},
		{name: "no secret", change: func(a *agent.Agent) { a.Injected = nil }, replaces: true},
		{name: "open", change: func(a *agent.Agent) { a.Egress = egress.Rules{Mode: egress.Open} }, replaces: true},
		{name: "restricted again", change: func(a *agent.Agent) { a.Egress.Mode = egress.AllowList }, replaces: true},
	} {
		before := w.pod(t, a)
		a = a.Clone()
		row.change(&a)
		a.Generation++
		w.apply(t, a, testRuntimeInput())
		w.awaitReady(t, a)
		w.prune(t, a)
		after := w.pod(t, a)
		if replaced := after.UID != before.UID; replaced != row.replaces {
			t.Errorf("%s: the pod was replaced: %t, want %t", row.name, replaced, row.replaces)
		}
		w.wantDifferences(t, "after "+row.name, a)
		want := corev1.DNSClusterFirst
		if a.Egress.Restricted() {
			want = corev1.DNSNone
		}
		service, err := w.admin.Services(a.Namespace()).Get(t.Context(), agentName, metav1.GetOptions{})
		must(t, err)
		p, decodeErr := egress.Decode(service.Annotations[egress.Annotation])
		if after.Spec.DNSPolicy != want || (decodeErr == nil) != a.Egress.Restricted() ||
			len(p.Inject) != len(a.Injected) {
			t.Errorf("%s: the pod has the DNS policy %s, and the gate the policy %+v (%v)", row.name,
				after.Spec.DNSPolicy, p, decodeErr)
		}
	}
}

// TestDifferences_FindAnotherWayOutAndApplyRevertsIt: what the gate enforces is repaired as all else is.
func TestDifferences_FindAnotherWayOutAndApplyRevertsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.restrictedAgent(t)
	service := core("Service", a.Namespace(), agentName)
	set, network := service, service
	set.gvk.Group, set.gvk.Kind = "apps", "StatefulSet"
	network.gvk.Group, network.gvk.Kind = "networking.k8s.io", "NetworkPolicy"
	for name, row := range map[string]struct {
		of    target
		kind  types.PatchType
		patch string
	}{
		"another policy": {
			of: service, kind: types.MergePatchType,
			patch: fmt.Sprintf(`{"metadata":{"annotations":{%q:"{\"allow\":[\"*\"]}"}}}`, egress.Annotation),
		},
		"no policy": {
			of: service, kind: types.MergePatchType,
			patch: fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, egress.Annotation),
		},
		"another name server": {
			of: set, kind: types.MergePatchType,
			patch: `{"spec":{"template":{"spec":{"dnsConfig":{"nameservers":["8.8.8.8"]}}}}}`,
		},
		"the cluster's name servers": {
			of: set, kind: types.MergePatchType,
			patch: `{"spec":{"template":{"spec":{"dnsPolicy":"ClusterFirst"}}}}`,
		},
		"the placeholder": {
			of: set, kind: types.StrategicMergePatchType,
			patch: `{"spec":{"template":{"spec":{"containers":[{"name":"agent","env":[{"name":"TOKEN","value":"x"}]}]}}}}`,
		},
		"another peer": {
			of: network, kind: types.JSONPatchType, patch: `[{"op":"remove","path":"/spec/egress/0/to/0/podSelector"}]`,
		},
	} {
		w.edit(t, row.of, row.kind, row.patch)
		w.wantDifferences(t, "after a change of "+name, a, row.of.gvk.Kind+" agent: changed")
		w.apply(t, a, testRuntimeInput())
		w.wantDifferences(t, "after "+name+" was applied again", a)
	}
}

// TestJudgeTrust: a gate that does not answer is the cell's trouble, and not the agent's.
func TestJudgeTrust(t *testing.T) {
	t.Parallel()
	never, running := corev1.ContainerState{}, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, row := range map[string]struct {
		now, last corev1.ContainerState
		// want is the code of the failure; "" if the container gives no reason.
		want string
	}{
		"asks":           {now: running, last: never, want: codeTimeout},
		"failed":         {now: exited(1, "Error"), last: never, want: codeNoStart},
		"waits to retry": {now: waitingFor("CrashLoopBackOff"), last: exited(1, "Error"), want: codeNoStart},
		"is pulled":      {now: waitingFor("ErrImagePull"), last: never, want: codeImagePull},
		"has ended well": {now: exited(0, "Completed"), last: never},
		"comes later":    {now: waitingFor("PodInitializing"), last: never},
	} {
		v := desired{hash: "hash"}.judge(podWith(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: trustName, State: row.now, LastTerminationState: row.last},
				{Name: frontName, State: waitingFor("PodInitializing")},
			}
		}))
		silent := row.want == ""
		if v.silent != silent || !silent && v.failure.Code != row.want || v.failure.Permanent {
			t.Errorf("%s: %+v, silent %t, want %q", name, v.failure, v.silent, row.want)
		}
	}
}

// A client may call a brokered secret as it likes, also by the name of a variable that leads to the certificates. An
// API server refuses a list that has a name twice.
func TestPod_NamesEachVariableOnce(t *testing.T) {
	t.Parallel()
	for _, key := range dataplane.CAVariables() {
		a := testAgent()
		broker(&a, key, "api.example.com")
		b := blueprintOf(t, a)
		values := map[string][]string{}
		for _, v := range b.pod().Spec.Containers[0].Env {
			values[v.Name] = append(values[v.Name], v.Value)
		}
		for name, of := range values {
			if len(of) != 1 || name == key && of[0] != egress.Placeholder {
				t.Errorf("a secret %s: the variable %s has the values %q, want one", key, name, of)
			}
		}
	}
}
