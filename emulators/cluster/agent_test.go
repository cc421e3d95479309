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
)

func podOf(spec corev1.PodSpec) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod"}, Spec: spec}
}

// agent creates a StatefulSet of one pod, agent-0, with a volume of 1 GiB.
func (w *world) agent(t *testing.T, namespace string) {
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
					VolumeMounts:   []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
				}}},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}
	if _, err := w.client.AppsV1().StatefulSets(namespace).Create(t.Context(), set,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// await waits until the agent's pod looks as described.
func (w *world) await(t *testing.T, namespace, description string, looks func(*corev1.PodStatus) bool) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		pod, err := w.client.CoreV1().Pods(namespace).Get(ctx, "agent-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !looks(&pod.Status) {
			return fmt.Errorf("the pod does not look as wanted, %s, but: %s %+v", description, pod.Status.Phase,
				pod.Status.ContainerStatuses)
		}
		return nil
	})
}

func ready(status *corev1.PodStatus) bool {
	return conditionIs(status, corev1.PodReady, corev1.ConditionTrue, "")
}

func conditionIs(status *corev1.PodStatus, name corev1.PodConditionType, value corev1.ConditionStatus,
	reason string) bool {
	return slices.ContainsFunc(status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == name && c.Status == value && c.Reason == reason
	})
}

func testAgent(t *testing.T, w *world) {
	const namespace = "whole"
	w.namespace(t, namespace, nil)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "plan"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}
	if _, err := w.client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.agent(t, namespace)
	w.await(t, namespace, "ready", ready)
	claim, err := w.client.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), "data-agent-0",
		metav1.GetOptions{})
	if err != nil || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("claim is %s (%v), want it bound", claim.Status.Phase, err)
	}

	second := podOf(corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example/agent:v1"}}})
	_, err = w.client.CoreV1().Pods(namespace).Create(t.Context(), second, metav1.CreateOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("second pod: error %v, want it forbidden by the quota", err)
	}

	if err := w.client.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for what, get := range map[string]func(ctx context.Context) error{
		"namespace": func(ctx context.Context) error {
			_, err := w.client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			return err
		},
		"volume": func(ctx context.Context) error {
			_, err := w.client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
			return err
		},
	} {
		eventually(t, func(ctx context.Context) error {
			if err := get(ctx); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the %s is not gone: %w", what, err)
			}
			return nil
		})
	}
}

func testVolumeExpands(t *testing.T, w *world) {
	const namespace = "growing"
	w.namespace(t, namespace, nil)
	w.agent(t, namespace)
	w.await(t, namespace, "ready", ready)
	claims, patch := w.client.CoreV1().PersistentVolumeClaims(namespace),
		[]byte(`{"spec":{"resources":{"requests":{"storage":"5Gi"}}}}`)
	if _, err := claims.Patch(t.Context(), "data-agent-0", types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "data-agent-0", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if has := claim.Status.Capacity[corev1.ResourceStorage]; has.String() != "5Gi" {
			return fmt.Errorf("the volume has %s, want 5Gi", has.String())
		}
		return nil
	})
}

// annotate tells a namespace's fault; "" takes it away.
func (w *world) annotate(t *testing.T, namespace string, fault cluster.Fault) {
	t.Helper()
	value := "null"
	if fault != "" {
		value = fmt.Sprintf("%q", fault)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, cluster.FaultAnnotation, value)
	if _, err := w.client.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch,
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waits(reason string) func(*corev1.PodStatus) bool {
	return func(status *corev1.PodStatus) bool {
		return len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].State.Waiting != nil &&
			status.ContainerStatuses[0].State.Waiting.Reason == reason && !ready(status)
	}
}

// crashed describes a container in a crash loop, restarted already, whose runs end with code.
func crashed(code int32, reason string) func(*corev1.PodStatus) bool {
	return func(status *corev1.PodStatus) bool {
		if !waits("CrashLoopBackOff")(status) {
			return false
		}
		c := status.ContainerStatuses[0]
		last := c.LastTerminationState.Terminated
		return c.RestartCount > 0 && last != nil && last.ExitCode == code && last.Reason == reason
	}
}

func testFaults(t *testing.T, w *world) {
	for name, test := range map[string]struct {
		fault       cluster.Fault
		description string
		looks       func(*corev1.PodStatus) bool
	}{
		"image-pull": {fault: cluster.ImagePull, description: "unable to get its image", looks: waits("ImagePullBackOff")},
		"crash-loop": {fault: cluster.CrashLoop, description: "in a crash loop", looks: crashed(1, "Error")},
		"oom": {fault: cluster.OutOfMemory, description: "out of memory again and again",
			looks: crashed(137, "OOMKilled")},
		"not-ready": {fault: cluster.NotReady, description: "running but not ready",
			looks: func(status *corev1.PodStatus) bool {
				return len(status.ContainerStatuses) > 0 && status.ContainerStatuses[0].State.Running != nil &&
					!ready(status)
			}},
		"unschedulable": {fault: cluster.Unschedulable, description: "not bound to a node",
			looks: func(status *corev1.PodStatus) bool {
				return conditionIs(status, corev1.PodScheduled, corev1.ConditionFalse, corev1.PodReasonUnschedulable)
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := "fault-" + name
			w.namespace(t, namespace, nil)
			w.agent(t, namespace)
			w.await(t, namespace, "ready", ready)
			w.annotate(t, namespace, test.fault)
			w.await(t, namespace, test.description, test.looks)
			w.annotate(t, namespace, "")
			w.await(t, namespace, "ready again", ready)
		})
	}
}

func testFaultBeforeNamespace(t *testing.T, w *world) {
	const namespace = "doomed"
	list := func(value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"data":{%q:%s}}`, namespace, value)
		_, err := w.client.CoreV1().ConfigMaps(cluster.FaultsNamespace).Patch(t.Context(), cluster.FaultsConfigMap,
			types.MergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	list(`"` + string(cluster.ImagePull) + `"`)
	w.namespace(t, namespace, nil)
	w.agent(t, namespace)
	w.await(t, namespace, "unable to get its image, never having run", func(status *corev1.PodStatus) bool {
		return status.Phase == corev1.PodPending && waits("ImagePullBackOff")(status)
	})
	w.annotate(t, namespace, cluster.Slow(0)) // wins over the list
	w.await(t, namespace, "ready", ready)
	list("null")
}
