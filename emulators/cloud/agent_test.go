package cloud_test

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// environmentOf returns the variables with which the container of an agent was started. It returns false while the
// agent has no ready pod. The values are in immutable objects, which the pod names.
func (d deployment) environmentOf(t *testing.T, id string) (map[string]string, bool) {
	t.Helper()
	pod, err := d.cluster.Pods("agent-"+id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, false
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range pod.Status.Conditions {
		if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue || pod.DeletionTimestamp != nil {
			continue
		}
		env := map[string]string{}
		for _, source := range pod.Spec.Containers[0].EnvFrom {
			for k, v := range d.configOf(t, pod.Namespace, source.ConfigMapRef.Name) {
				env[k] = v
			}
		}
		for _, v := range pod.Spec.Containers[0].Env {
			env[v.Name] = v.Value
			if v.ValueFrom != nil && v.ValueFrom.SecretKeyRef != nil {
				env[v.Name] = d.secretOf(t, pod.Namespace, *v.ValueFrom.SecretKeyRef)
			}
		}
		return env, true
	}
	return nil, false
}

func (d deployment) configOf(t *testing.T, namespace, name string) map[string]string {
	t.Helper()
	m, err := d.cluster.ConfigMaps(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("read what the pod of %s was started with: %v", namespace, err)
		return nil
	}
	if m.Immutable == nil || !*m.Immutable {
		t.Errorf("ConfigMap %s of %s is not immutable", name, namespace)
	}
	return m.Data
}

func (d deployment) secretOf(t *testing.T, namespace string, ref corev1.SecretKeySelector) string {
	t.Helper()
	s, err := d.cluster.Secrets(namespace).Get(t.Context(), ref.Name, metav1.GetOptions{})
	if err != nil {
		t.Errorf("read what the pod of %s was started with: %v", namespace, err)
		return ""
	}
	if s.Immutable == nil || !*s.Immutable {
		t.Errorf("Secret %s of %s is not immutable", ref.Name, namespace)
	}
	return string(s.Data[ref.Key])
}

// callAgent sends a request to an agent's hostname. The caller closes the body.
func (d deployment) callAgent(t *testing.T, method, url string, change func(*http.Request)) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	change(req)
	res, err := d.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// podUID returns the UID of an agent's pod.
func (d deployment) podUID(t *testing.T, id string) types.UID {
	t.Helper()
	pod, err := d.cluster.Pods("agent-"+id).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod.UID
}
