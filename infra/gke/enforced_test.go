//go:build unix

package gke

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/emulators/clustertest"
)

// The real API server refuses what the namespace's policies forbid.
func TestNamespace_PoliciesAreEnforced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.readyAgent(t)

	// The agent's own pod, under another name, is accepted: so it is the change that is refused, and not something
	// else.
	own, err := w.admin.Pods(a.Namespace()).Get(t.Context(), podName, metav1.GetOptions{})
	must(t, err)
	pod := func(name string, change func(*corev1.PodSpec)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *own.Spec.DeepCopy()}
		p.Spec.NodeName, p.Spec.Hostname, p.Spec.Tolerations = "", "", nil
		change(&p.Spec)
		return p
	}
	container := func(change func(*corev1.Container)) func(*corev1.PodSpec) {
		return func(s *corev1.PodSpec) { change(&s.Containers[0]) }
	}
	for _, test := range []struct {
		name, want string
		change     func(*corev1.PodSpec)
	}{
		{name: "privileged", want: "PodSecurity", change: container(func(c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), new(true)
		})},
		{name: "host-network", want: "PodSecurity", change: func(s *corev1.PodSpec) { s.HostNetwork = true }},
		{
			name: "root", want: "PodSecurity",
			change: func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = new(false) },
		},
		{name: "host-path", want: "PodSecurity", change: func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes,
				corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}},
		{name: "front-as-root", want: "PodSecurity", change: func(s *corev1.PodSpec) {
			s.InitContainers[0].SecurityContext.RunAsNonRoot = new(false)
		}},
		{name: "second", want: "", change: func(*corev1.PodSpec) {}},
		{name: "large", want: "exceeded quota", change: container(func(c *corev1.Container) {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("2049Mi")
		})},
		{name: "large-front", want: "exceeded quota", change: func(s *corev1.PodSpec) {
			s.InitContainers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("33Mi")
		}},
		{name: "unlimited", want: "must specify limits.cpu", change: container(func(c *corev1.Container) {
			c.Resources = corev1.ResourceRequirements{}
		})},
		{name: "third", want: "", change: func(*corev1.PodSpec) {}},
		{name: "fourth", want: "exceeded quota", change: func(*corev1.PodSpec) {}},
	} {
		_, err := w.admin.Pods(a.Namespace()).Create(t.Context(), pod(test.name, test.change), metav1.CreateOptions{})
		if test.want == "" && err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if test.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want it forbidden for %q", test.name, err, test.want)
		}
	}
	if own.Spec.AutomountServiceAccountToken == nil || *own.Spec.AutomountServiceAccountToken ||
		len(own.Spec.Volumes) != 2 {
		t.Errorf("the pod has volumes %v, want the agent's two and no token", own.Spec.Volumes)
	}
	clustertest.Eventually(t, func(ctx context.Context) error { // a controller writes the status
		quota, err := w.admin.ResourceQuotas(a.Namespace()).Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, hard := range quota.Status.Hard { // the namespace is full
			used := quota.Status.Used[name]
			if strings.HasPrefix(string(name), "limits.") && used.Cmp(hard) != 0 {
				return fmt.Errorf("three pods take %s of %s %s, want all", used.String(), hard.String(), name)
			}
		}
		return nil
	})
	balancer := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "way-in"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := w.admin.Services(a.Namespace()).Create(t.Context(), balancer,
		metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a load balancer: error %v, want it forbidden", err)
	}
}
