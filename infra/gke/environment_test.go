//go:build unix

package gke

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
)

// environmentOf reads the environment of a container as a kubelet does: single variables win over whole objects.
func (w *world) environmentOf(t *testing.T, pod *corev1.Pod, c corev1.Container) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, source := range c.EnvFrom {
		plain, err := w.admin.ConfigMaps(pod.Namespace).Get(t.Context(), source.ConfigMapRef.Name, metav1.GetOptions{})
		must(t, err)
		maps.Copy(env, plain.Data)
	}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		if e.ValueFrom.FieldRef != nil {
			env[e.Name] = e.ValueFrom.FieldRef.FieldPath
			continue
		}
		ref := e.ValueFrom.SecretKeyRef
		secret, err := w.admin.Secrets(pod.Namespace).Get(t.Context(), ref.Name, metav1.GetOptions{})
		must(t, err)
		env[e.Name] = string(secret.Data[ref.Key])
	}
	return env
}

// The environments are those of the pod that the cluster created.
func TestPod_ContainersGetTheirEnvironments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(s *Settings) {
		s.Images.Runtime.Port, s.Images.Runtime.APIPort, s.Images.Runtime.HealthPath = 8000, 8642, "/healthz"
		s.Images.Runtime.PublicPaths, s.Images.Runtime.BusyPath = []string{"/hooks/", "/app"}, "/busy"
	})
	a := w.newAgent(t)
	a.Sleep.AfterSeconds = 1800
	a.Sandbox, a.PublicPaths = true, []string{"/hooks/", "/telegram"}
	a.Env = append(a.Env, agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 1})
	w.apply(t, a, testRuntimeInput("MODEL_API_KEY"))
	w.awaitReady(t, a)
	pod, err := w.admin.Pods(a.Namespace()).Get(t.Context(), podName, metav1.GetOptions{})
	must(t, err)
	for name, c := range map[string]struct {
		container corev1.Container
		want      map[string]string
	}{
		"agent": {container: pod.Spec.Containers[0], want: map[string]string{
			"PORT": "8000", "LOG_LEVEL": "info", "MODEL_API_KEY": "golden-value",
		}},
		"front": {container: pod.Spec.InitContainers[0], want: map[string]string{
			"LISTEN_HOST": "status.podIP", "AGENT_PORT": "8000", "AGENT_API_PORT": "8642",
			"AGENT_HEALTH_PATH": "/healthz", "AGENT_PUBLIC_PATHS": "/app,/hooks/,/telegram",
			"AGENT_AUTH": "front", "AGENT_HOSTNAME": a.Hostname(w.settings.Addresses),
			"JWKS_URL": "https://api.example.com/.well-known/jwks.json", "FRONT_METRICS": "true", "GOMEMLIMIT": "24MiB",
			"AGENT_ID": a.ID, "AGENT_SLEEP_AFTER": "1800", "AGENT_BUSY_PATH": "/busy", "DATA_DIR": "/data",
			"DASHBOARD_USERNAME": "admin", "DASHBOARD_PASSWORD": "golden-password", "API_SERVER_KEY": "golden-key",
		}},
	} {
		if got := w.environmentOf(t, pod, c.container); c.container.Name != name || !maps.Equal(got, c.want) {
			t.Errorf("the container %s has the environment %v, want %s with %v", c.container.Name, got, name, c.want)
		}
	}
}
