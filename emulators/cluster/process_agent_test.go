//go:build linux

package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"agents.example/controlplane/emulators/clustertest"
)

// processAgent is an agent of a sidecar front and a container agent, with a volume, in a separate namespace.
type processAgent struct {
	*testCluster
	namespace string
	record    string // file that the programs write to
	set       *appsv1.StatefulSet
}

func newProcessAgent(t *testing.T, c *testCluster, namespace string) *processAgent {
	t.Helper()
	namespace = strings.ToLower(strings.ReplaceAll(namespace, "'", ""))
	c.namespace(t, namespace, nil)
	record := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	labels, always := map[string]string{"app": "agent"}, corev1.ContainerRestartPolicyAlways
	environment := []corev1.EnvVar{{Name: "RECORD", Value: record}}
	spec := corev1.PodSpec{
		InitContainers: []corev1.Container{
			{
				Name: "front", Image: image, Command: []string{"/app/front"}, RestartPolicy: &always,
				Env: append([]corev1.EnvVar{
					{Name: "AGENT_PORT", Value: "3000"},
					{Name: "LISTEN_HOST", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"},
					}},
				}, environment...),
				ReadinessProbe: httpProbe("/health/ready", intstr.FromInt32(8080)),
			},
			{Name: "init", Image: image, Command: []string{"/app/init"}, Env: environment},
		},
		Containers: []corev1.Container{{
			Name: "agent", Image: image, Args: []string{"on", "$(PORT)"},
			Env:          append([]corev1.EnvVar{{Name: "PORT", Value: "3000"}}, environment...),
			Ports:        []corev1.ContainerPort{{Name: "web", ContainerPort: 3000}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
			StartupProbe: httpProbe("/health", intstr.FromString("web")),
		}},
	}
	spec.Containers[0].StartupProbe.FailureThreshold = 300
	return &processAgent{testCluster: c, namespace: namespace, record: record, set: &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"},
		Spec: appsv1.StatefulSetSpec{
			ServiceName: "agent", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec},
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
	}}
}

func httpProbe(path string, port intstr.IntOrString) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
}

// container is the agent's container in the template.
func (a *processAgent) container() *corev1.Container { return &a.set.Spec.Template.Spec.Containers[0] }

// create creates the agent with a Service and waits until it is ready.
func (a *processAgent) create(t *testing.T) {
	t.Helper()
	a.apply(t)
	a.awaitReady(t)
}

func (a *processAgent) apply(t *testing.T) {
	t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "agent", Labels: map[string]string{"owner": "test"}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: a.set.Spec.Selector.MatchLabels,
			Ports: []corev1.ServicePort{{Name: "http", Port: 8080, Protocol: corev1.ProtocolTCP}},
		},
	}
	_, err := a.client.Services(a.namespace).Create(t.Context(), service, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.client.StatefulSets(a.namespace).Create(t.Context(), a.set,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (a *processAgent) awaitReady(t *testing.T) { a.awaitPod(t, a.namespace, "ready", ready) }

func (a *processAgent) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	pod, err := a.client.Pods(a.namespace).Get(t.Context(), "agent-0", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// log returns the log of a container.
func (a *processAgent) log(t *testing.T, o corev1.PodLogOptions) string {
	t.Helper()
	text, err := a.client.Subresource(a.namespace, "agent-0", "log", &o).DoRaw(t.Context())
	if err != nil {
		t.Errorf("logs with options %+v: %v", o, err)
	}
	return string(text)
}

// address is where the agent's container listens. The first line of its log says its port.
func (a *processAgent) address(t *testing.T) (address string) {
	t.Helper()
	clustertest.Eventually(t, func(context.Context) error {
		for line := range strings.Lines(a.log(t, corev1.PodLogOptions{Container: "agent"})) {
			if port, ok := strings.CutPrefix(strings.TrimSpace(line), "entrypoint starts with on "); ok {
				address = a.pod(t).Status.PodIP + ":" + port
				return nil
			}
		}
		return errors.New("the agent does not say its port")
	})
	return address
}

// call sends a request to the agent's container, which may die of it.
func (a *processAgent) call(t *testing.T, method, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+a.address(t)+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// environment returns the variables of the agent's container.
func (a *processAgent) environment(t *testing.T) map[string]string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(a.call(t, http.MethodGet, "/env")), &list); err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, variable := range list {
		name, value, _ := strings.Cut(variable, "=")
		values[name] = value
	}
	return values
}

// recorded returns the lines that the programs wrote.
func (a *processAgent) recorded(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(a.record)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// awaitEndpoint waits until the agent's only endpoint is ready or not.
func (a *processAgent) awaitEndpoint(t *testing.T, ready bool) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		slices, err := a.client.EndpointSlices(a.namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "owner=test"})
		if err != nil {
			return err
		}
		if len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 1 {
			return fmt.Errorf("the Service has the slices %+v, want one of one endpoint", slices.Items)
		}
		endpoint := slices.Items[0].Endpoints[0]
		if *endpoint.Conditions.Ready != ready || endpoint.Addresses[0] != a.pod(t).Status.PodIP {
			return fmt.Errorf("endpoint %+v, want the pod's address and ready: %t", endpoint, ready)
		}
		return nil
	})
}

func (a *processAgent) delete(t *testing.T) {
	t.Helper()
	if err := a.client.Pods(a.namespace).Delete(t.Context(), "agent-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// container returns the status of a container of a pod.
func containerOf(status *corev1.PodStatus, name string) corev1.ContainerStatus {
	all := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses)
	i := slices.IndexFunc(all, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 {
		return corev1.ContainerStatus{}
	}
	return all[i]
}
