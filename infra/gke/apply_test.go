//go:build unix

package gke

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/provisioning"
)

// TestProvision brings agents up and counts: one write an object, no read, and none of either changes anything the second time.
func TestProvision(t *testing.T) {
	t.Parallel()
	for name, secrets := range map[string][]string{"plain": nil, "with secrets": {"MODEL_API_KEY", "OTHER_TOKEN"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			a := w.newAgent(t)
			for _, key := range secrets {
				a.Env = append(a.Env, agent.EnvVar{Key: key, SecretVersion: 1})
			}
			stages := agent.StageNames()
			if len(secrets) == 0 { // package provisioning skips the stage of an agent without any
				stages = []agent.StageName{
					agent.StageNamespace, agent.StagePolicy, agent.StageIdentity, agent.StageStorage, agent.StageRuntime, agent.StageRoute,
				}
			}
			objects := w.objects(t, a, testMaterial(secrets...), stages)
			w.apply(t, a, testMaterial(secrets...), stages...)
			if reads, writes := w.calls.take(); reads != 0 || writes != len(objects) {
				t.Errorf("%d reads and %d writes, want none and %d, the number of objects", reads, writes, len(objects))
			}
			w.awaitReady(t, a)

			before := w.versions(t, objects)
			if len(before) != len(objects) {
				t.Fatalf("%d objects are there, want %d", len(before), len(objects))
			}
			w.apply(t, a, testMaterial(secrets...))
			if diff := cmp.Diff(before, w.versions(t, objects)); diff != "" {
				t.Errorf("applying the same again changed objects (-before +after):\n%s", diff)
			}
			w.wantEnvironment(t, a, secrets)
		})
	}
}

func (w *world) objects(t *testing.T, a agent.Agent, m provisioning.Material, stages []agent.StageName) []object {
	t.Helper()
	b, err := w.blueprint(a, m)
	if err != nil {
		t.Fatal(err)
	}
	var all []object
	for _, stage := range stages {
		objects, err := b.objects(stage)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects...)
	}
	return all
}

// versions reads the spec's version of objects, or their resource version where there is none: controllers write statuses at any time.
func (w *world) versions(t *testing.T, objects []object) map[string]string {
	t.Helper()
	c, err := w.client("local")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, o := range objects {
		there, err := c.get(t.Context(), targetOf(o))
		if err != nil {
			t.Fatal(err)
		}
		version := there.GetResourceVersion()
		if there.GetKind() == "StatefulSet" {
			version = fmt.Sprint(there.GetGeneration())
		}
		versions[targetOf(o).String()] = version
	}
	return versions
}

// wantEnvironment checks what the agent's container is told.
func (w *world) wantEnvironment(t *testing.T, a agent.Agent, secrets []string) {
	t.Helper()
	secret, err := w.admin.CoreV1().Secrets(a.Namespace()).Get(t.Context(), environmentName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{envDashboardUsername: "admin", envDashboardPassword: "golden-password", envAPIKey: "golden-key"}
	for _, key := range secrets {
		want[key] = "golden-value"
	}
	got := map[string]string{}
	for key, value := range secret.Data {
		got[key] = string(value)
	}
	if !maps.Equal(want, got) {
		t.Errorf("the Secret has %d keys, want %d, or other values", len(got), len(want))
	}
}

// TestVariablesGo shows that a variable that is no longer wanted leaves the environment.
func TestVariablesGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Env = append(a.Env, agent.EnvVar{Key: "OLD_TOKEN", SecretVersion: 1})
	w.apply(t, a, testMaterial("OLD_TOKEN"))
	a.Env = nil
	w.apply(t, a, testMaterial(), agent.StageSecrets, agent.StageRuntime)
	w.wantEnvironment(t, a, nil)
	plain, err := w.admin.CoreV1().ConfigMaps(a.Namespace()).Get(t.Context(), environmentName, metav1.GetOptions{})
	if err != nil || len(plain.Data) != 0 {
		t.Errorf("ConfigMap has %v (%v), want nothing", plain.Data, err)
	}
	w.awaitReady(t, a)
}

// TestNamespaceIsEnforced shows that the real API server refuses what the namespace's policies forbid.
func TestNamespaceIsEnforced(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
	client := w.admin.CoreV1()

	// The agent's own pod, under another name, is accepted: so it is the change that is refused, and not something else.
	own, err := client.Pods(a.Namespace()).Get(t.Context(), podName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
		{"privileged", "PodSecurity", container(func(c *corev1.Container) {
			c.SecurityContext.Privileged, c.SecurityContext.AllowPrivilegeEscalation = new(true), new(true)
		})},
		{"host-network", "PodSecurity", func(s *corev1.PodSpec) { s.HostNetwork = true }},
		{"root", "PodSecurity", func(s *corev1.PodSpec) { s.SecurityContext.RunAsNonRoot = new(false) }},
		{"host-path", "PodSecurity", func(s *corev1.PodSpec) {
			s.Volumes = append(s.Volumes, corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}})
		}},
		{"large", "maximum memory usage per Container", container(func(c *corev1.Container) {
			c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("3Gi")
		})},
		{"second", "", func(*corev1.PodSpec) {}},
		{"third", "exceeded quota", func(*corev1.PodSpec) {}},
	} {
		_, err := client.Pods(a.Namespace()).Create(t.Context(), pod(test.name, test.change), metav1.CreateOptions{})
		if test.want == "" && err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if test.want != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want it forbidden for %q", test.name, err, test.want)
		}
	}
	if own.Spec.AutomountServiceAccountToken == nil || *own.Spec.AutomountServiceAccountToken || len(own.Spec.Volumes) != 2 {
		t.Errorf("the pod has volumes %v, want the agent's two and no token", own.Spec.Volumes)
	}
	balancer := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "way-in"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := client.Services(a.Namespace()).Create(t.Context(), balancer, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a load balancer: error %v, want it forbidden", err)
	}
}

// TestApplyRefused shows how the real API server's refusals arrive, and that none tells what it was about to store.
func TestApplyRefused(t *testing.T) {
	t.Parallel()
	const canary = "canary-4f1c"
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace)

	t.Run("secret", func(t *testing.T) {
		t.Parallel()
		a, m := a, testMaterial()
		a.Env = []agent.EnvVar{{Key: "NOT A KEY", SecretVersion: 1}}
		m.Secrets["NOT A KEY"] = []byte(canary)
		err := w.Apply(t.Context(), a, agent.StageSecrets, m)
		wantPermanent(t, err, codeObjectRejected)
		if !strings.Contains(err.Error(), "data[NOT A KEY]") {
			t.Errorf("error %v, want it to name the field", err)
		}
	})
	t.Run("too large", func(t *testing.T) {
		t.Parallel()
		a, m := a, testMaterial()
		a.Env = []agent.EnvVar{{Key: "LARGE", SecretVersion: 1}}
		m.Secrets["LARGE"] = []byte(strings.Repeat(canary, 1<<17))
		err := w.Apply(t.Context(), a, agent.StageSecrets, m)
		wantPermanent(t, err, codeObjectRejected)
		if strings.Contains(err.Error(), canary) {
			t.Error("the error quotes the value")
		}
	})
	t.Run("plain value", func(t *testing.T) {
		t.Parallel()
		a := a
		a.Env = []agent.EnvVar{{Key: "NOT A KEY", Value: canary}}
		err := w.Apply(t.Context(), a, agent.StageRuntime, testMaterial())
		wantPermanent(t, err, codeObjectRejected)
		if strings.Contains(err.Error(), canary) {
			t.Error("the error quotes the value")
		}
	})
	t.Run("hostname", func(t *testing.T) {
		t.Parallel()
		a := a
		a.Slug = "not a host"
		err := w.Apply(t.Context(), a, agent.StageRoute, testMaterial())
		wantPermanent(t, err, codeObjectRejected)
		if !strings.Contains(err.Error(), "spec.hostnames") {
			t.Errorf("error %v, want it to name the field", err)
		}
	})
	t.Run("namespace missing", func(t *testing.T) {
		t.Parallel()
		stranger := w.newAgent(t)
		for _, stage := range []agent.StageName{
			agent.StagePolicy, agent.StageIdentity, agent.StageSecrets, agent.StageStorage, agent.StageRuntime, agent.StageRoute,
		} {
			wantUnavailable(t, w.Apply(t.Context(), stranger, stage, testMaterial()), provisioning.CodeNamespaceMissing)
		}
	})
}

// TestNamespaceTerminating shows that nothing is put into a namespace that goes away, and that this is tried again.
func TestNamespaceTerminating(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace, agent.StageRuntime)
	services := w.admin.CoreV1().Services(a.Namespace())
	held, err := services.Get(t.Context(), agentName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	held.Finalizers = []string{"agents.example/test"}
	if held, err = services.Update(t.Context(), held, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := w.Delete(t.Context(), a); err != nil {
		t.Errorf("deleting again: %v", err)
	}
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageNamespace, testMaterial()), codeNamespaceTerminating)
	wantUnavailable(t, w.Apply(t.Context(), a, agent.StageIdentity, testMaterial()), codeNamespaceTerminating)
	eventually(t, func(ctx context.Context) error {
		held, err := services.Get(ctx, agentName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		held.Finalizers = nil
		_, err = services.Update(ctx, held, metav1.UpdateOptions{})
		return err
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := w.AwaitGone(ctx, a); err != nil {
		t.Error(err)
	}
}

// TestVolumeKeepsItsClass shows that agents outlive a change of the settings that their volume can't follow.
func TestVolumeKeepsItsClass(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial())
	w.awaitReady(t, a)
	claims := w.admin.CoreV1().PersistentVolumeClaims(a.Namespace())
	before, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	later := newWorld(t, func(s *Settings) { s.StorageClass = "another" })
	smaller := a
	smaller.Plan = "hobby"
	later.apply(t, smaller, testMaterial(), agent.StageStorage)
	after, err := claims.Get(t.Context(), volumeName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
		t.Errorf("the claim changed:\n%s", diff)
	}
}

// TestQuotaNotWorkedOut shows that an object that is refused because a quota is too new is applied when the quota is not.
func TestQuotaNotWorkedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testMaterial(), agent.StageNamespace)
	var refused atomic.Int32
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method != http.MethodPatch || refused.Add(1) > 3 {
			return nil, nil
		}
		return answer(http.StatusForbidden, metav1.StatusReasonForbidden,
			`persistentvolumeclaims "data" is forbidden: status unknown for quota: agent, resources: persistentvolumeclaims`), nil
	}
	w.apply(t, a, testMaterial(), agent.StageStorage)
	if refused.Load() != 4 {
		t.Errorf("%d attempts, want 4", refused.Load())
	}
}
