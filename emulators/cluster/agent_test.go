//go:build unix

package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/emulators/cluster"
	"agents.example/controlplane/emulators/clustertest"
)

func podOf(spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: spec}
}

// createAgent creates a StatefulSet of one pod, agent-0, with a volume of 1 GiB.
func (c *testCluster) createAgent(t *testing.T, namespace string) {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "agent", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "main", Image: "example/agent:v1",
					VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					ReadinessProbe: &corev1.Probe{
						ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}},
					},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{
						Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
					},
				},
			}},
		},
	}
	if _, err := c.client.StatefulSets(namespace).Create(t.Context(), set,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// awaitPod waits until the agent's pod is in a state.
func (c *testCluster) awaitPod(t *testing.T, namespace, state string, reached func(*corev1.PodStatus) bool) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		pod, err := c.client.Pods(namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !reached(&pod.Status) {
			return fmt.Errorf("the pod is not %s: phase %s, containers %+v", state, pod.Status.Phase,
				pod.Status.ContainerStatuses)
		}
		return nil
	})
}

func ready(status *corev1.PodStatus) bool {
	return conditionIs(status, corev1.PodReady, corev1.ConditionTrue, "")
}

func conditionIs(status *corev1.PodStatus, name corev1.PodConditionType, value corev1.ConditionStatus,
	reason string,
) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == name && c.Status == value && c.Reason == reason
	})
}

func testAgent(t *testing.T, c *testCluster) {
	const namespace = "whole"
	c.namespace(t, namespace, nil)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "plan"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}
	if _, err := c.client.ResourceQuotas(namespace).Create(t.Context(), quota,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.createAgent(t, namespace)
	c.awaitPod(t, namespace, "ready", ready)
	claim, err := c.client.PersistentVolumeClaims(namespace).Get(t.Context(), "data-agent-0",
		metav1.GetOptions{})
	if err != nil || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("phase of the volume claim = %s, %v; want Bound", claim.Status.Phase, err)
	}

	second := podOf(corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/agent:v1"}}})
	_, err = c.client.Pods(namespace).Create(t.Context(), second, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("creation of a second pod: error = %v, want Forbidden by the quota", err)
	}

	if err := c.client.Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for what, get := range map[string]func(ctx context.Context) error{
		"namespace": func(ctx context.Context) error {
			_, err := c.client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return err
		},
		"volume": func(ctx context.Context) error {
			_, err := c.client.PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			return err
		},
	} {
		clustertest.Eventually(t, func(ctx context.Context) error {
			if err := get(ctx); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the %s still exists: %w", what, err)
			}
			return nil
		})
	}
}

func testVolumeExpands(t *testing.T, c *testCluster) {
	const namespace = "growing"
	c.namespace(t, namespace, nil)
	c.createAgent(t, namespace)
	c.awaitPod(t, namespace, "ready", ready)
	claims, patch := c.client.PersistentVolumeClaims(namespace),
		[]byte(`{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}`)
	if _, err := claims.Patch(t.Context(), "data-agent-0", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	clustertest.Eventually(t, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "data-agent-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if has := claim.Status.Capacity[corev1.ResourceStorage]; has.String() != "5Gi" {
			return fmt.Errorf("capacity of the volume = %s, want 5Gi", has.String())
		}
		return nil
	})
}

// setFault sets the fault of a namespace; "" removes it.
func (c *testCluster) setFault(t *testing.T, namespace string, fault cluster.Fault) {
	t.Helper()
	value := "null"
	if fault != "" {
		value = fmt.Sprintf("%q", fault)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, cluster.FaultAnnotation, value)
	if _, err := c.client.Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// isWaiting returns a check that the first container waits for a reason.
func isWaiting(reason string) func(*corev1.PodStatus) bool {
	return func(status *corev1.PodStatus) bool {
		return len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].State.Waiting != nil &&
			status.ContainerStatuses[0].State.Waiting.Reason == reason && !ready(status)
	}
}

// hasCrashed returns a check that the first container is in a crash loop, was restarted and last exited with code.
func hasCrashed(code int32, reason string) func(*corev1.PodStatus) bool {
	return func(status *corev1.PodStatus) bool {
		if !isWaiting("CrashLoopBackOff")(status) {
			return false
		}
		c := status.ContainerStatuses[0]
		last := c.LastTerminationState.Terminated
		return c.RestartCount > 0 && last != nil && last.ExitCode == code && last.Reason == reason
	}
}

func testFaults(t *testing.T, c *testCluster) {
	for name, test := range map[string]struct {
		fault   cluster.Fault
		state   string
		reached func(*corev1.PodStatus) bool
	}{
		"image-pull": {
			fault: cluster.ImagePull, state: "unable to pull its image",
			reached: isWaiting("ImagePullBackOff"),
		},
		"crash-loop": {fault: cluster.CrashLoop, state: "in a crash loop", reached: hasCrashed(1, "Error")},
		"oom": {
			fault: cluster.OutOfMemory, state: "in a crash loop for lack of memory",
			reached: hasCrashed(137, "OOMKilled"),
		},
		"not-ready": {
			fault: cluster.NotReady, state: "running but not ready",
			reached: func(status *corev1.PodStatus) bool {
				return len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].State.Running != nil &&
					!ready(status)
			},
		},
		"unschedulable": {
			fault: cluster.Unschedulable, state: "not bound to a node",
			reached: func(status *corev1.PodStatus) bool {
				return conditionIs(status, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "fault-" + name
			c.namespace(t, namespace, nil)
			c.createAgent(t, namespace)
			c.awaitPod(t, namespace, "ready", ready)
			c.setFault(t, namespace, test.fault)
			c.awaitPod(t, namespace, test.state, test.reached)
			c.setFault(t, namespace, "")
			c.awaitPod(t, namespace, "ready again", ready)
		})
	}
}

func testFaultBeforeNamespace(t *testing.T, c *testCluster) {
	const namespace = "doomed"
	list := func(fault cluster.Fault) {
		t.Helper()
		_, err := c.client.ConfigMaps(cluster.FaultsNamespace).Patch(t.Context(), cluster.FaultsConfigMap,
			types.MergePatchType, cluster.FaultPatch(namespace, fault), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	list(cluster.ImagePull)
	c.namespace(t, namespace, nil)
	c.createAgent(t, namespace)
	c.awaitPod(t, namespace, "unable to pull its image before its first run", func(status *corev1.PodStatus) bool {
		return status.Phase == corev1.PodPending && isWaiting("ImagePullBackOff")(status)
	})
	c.setFault(t, namespace, cluster.Slow(0)) // takes precedence over the ConfigMap
	c.awaitPod(t, namespace, "ready", ready)
	list("")
}
