package gke

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/plan"
)

// podOf builds the pod template of an agent.
func podOf(t *testing.T, a agent.Agent, change ...func(*Settings)) corev1.PodTemplateSpec {
	t.Helper()
	s := testSettings()
	for _, f := range change {
		f(&s)
	}
	b, err := testClusters(t, s).blueprint(a, testRuntimeInput())
	if err != nil {
		t.Fatal(err)
	}
	return b.pod()
}

// variables are the names of a container's single variables. The ConfigMap has the plain ones, and no Secret is read as
// a whole: it holds the credentials.
func variables(t *testing.T, c corev1.Container) []string {
	t.Helper()
	for _, source := range c.EnvFrom {
		if source.SecretRef != nil {
			t.Errorf("the container %s has all keys of the Secret %s", c.Name, source.SecretRef.Name)
		}
	}
	var names []string
	for _, e := range c.Env {
		if ref := e.ValueFrom; ref != nil && ref.SecretKeyRef != nil && ref.SecretKeyRef.Key != e.Name {
			t.Errorf("the variable %s has the value of the key %s", e.Name, ref.SecretKeyRef.Key)
		}
		names = append(names, e.Name)
	}
	return names
}

func TestPod_AgentsContainerSeesCredentialsOnlyIfItsImageChecksThem(t *testing.T) {
	t.Parallel()
	credentials := []string{"API_SERVER_KEY", "DASHBOARD_PASSWORD", "DASHBOARD_USERNAME"}
	for auth, want := range map[string][]string{
		"":                  {"PORT", "B_TOKEN", "Z_TOKEN"},
		dataplane.AuthFront: {"PORT", "B_TOKEN", "Z_TOKEN"},
		dataplane.AuthImage: append(append([]string{"PORT"}, credentials...), "B_TOKEN", "Z_TOKEN"),
	} {
		a := testAgent()
		for _, key := range []string{"Z_TOKEN", "B_TOKEN"} {
			a.Env = append(a.Env, agent.EnvVar{Key: key, SecretVersion: 1})
		}
		pod := podOf(t, a, func(s *Settings) { s.Images.Runtime.Auth = auth })
		if got := variables(t, pod.Spec.Containers[0]); !slices.Equal(got, want) {
			t.Errorf("AGENT_AUTH %q: the agent's container has the variables %v, want %v", auth, got, want)
		}
		front := variables(t, pod.Spec.InitContainers[0])
		for _, name := range credentials {
			if !slices.Contains(front, name) {
				t.Errorf("AGENT_AUTH %q: the front has the variables %v, want %s among them", auth, front, name)
			}
		}
		if slices.ContainsFunc(front, func(name string) bool { return strings.HasSuffix(name, "_TOKEN") }) {
			t.Errorf("AGENT_AUTH %q: the front has the variables %v, want none of the client's", auth, front)
		}
	}
}

func TestPod_RunsTheSampleAgentWithoutAnImage(t *testing.T) {
	t.Parallel()
	c := podOf(t, testAgent(), func(s *Settings) { s.Images.Agent = "" }).Spec.Containers[0]
	if c.Image != testSettings().Images.Platform || !slices.Equal(c.Command, []string{"/ko-app/sampleagent"}) {
		t.Errorf("without an image: %s %v, want the sample agent of the platform's image", c.Image, c.Command)
	}
	c = podOf(t, testAgent()).Spec.Containers[0]
	if c.Image != testSettings().Images.Agent || c.Command != nil {
		t.Errorf("with an image: %s %v, want the image with its own command", c.Image, c.Command)
	}
	a := testAgent()
	a.Cell = "gke"
	c = podOf(t, a, func(s *Settings) { s.Images.Agent = "" }).Spec.Containers[0]
	if c.Image != testSettings().Images.Cells["gke"] || c.Command != nil {
		t.Errorf("with an image of the cell: %s %v, want it with its own command", c.Image, c.Command)
	}
}

// Autopilot raises the requests of a pod that it may not evict to half a CPU, which smaller plans do not pay for.
func TestPod_StaysOnItsNodeIfThatCostsNothing(t *testing.T) {
	t.Parallel()
	for _, p := range plan.All() {
		a := testAgent()
		a.Plan = p.ID
		want := ""
		if p.CPURequestMillicores >= 500 {
			want = "false"
		}
		if got := podOf(t, a).Annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"]; got != want {
			t.Errorf("%s: safe-to-evict = %q, want %q", p.ID, got, want)
		}
	}
}

func TestPod_OnlySandboxedFrontsServeMetrics(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{false, true} {
		a := testAgent()
		a.Sandbox = sandbox
		pod := podOf(t, a)
		front := pod.Spec.InitContainers[0]
		told := slices.Contains(variables(t, front), dataplane.EnvFrontMetrics)
		open := slices.ContainsFunc(front.Ports, func(p corev1.ContainerPort) bool {
			return p.ContainerPort == dataplane.FrontMetricsPort
		})
		labeled := pod.Labels["agents.example/sandbox"] == "true"
		if told != sandbox || open != sandbox || labeled != sandbox {
			t.Errorf("sandbox %t: metrics %t, port %t, label %t; want all equal", sandbox, told, open, labeled)
		}
	}
}

// A sidecar with a startup probe would keep the agent's container from starting before the front is ready, which waits
// for the agent's container.
func TestPod_FrontDoesNotDelayTheAgent(t *testing.T) {
	t.Parallel()
	pod := podOf(t, testAgent())
	front := pod.Spec.InitContainers[0]
	if front.RestartPolicy == nil || *front.RestartPolicy != corev1.ContainerRestartPolicyAlways {
		t.Error("the front is no sidecar: the agent's container would wait for its end")
	}
	if front.StartupProbe != nil {
		t.Error("the front has a startup probe, want none")
	}
	if pod.Spec.Containers[0].ReadinessProbe != nil {
		t.Error("the agent's container has a readiness probe, want the front's alone")
	}
}

func TestContentHash_CoversEverything(t *testing.T) {
	t.Parallel()
	hash := func(change func(*corev1.PodSpec)) string {
		t.Helper()
		b, err := testClusters(t, testSettings()).blueprint(testAgent(), testRuntimeInput())
		if err != nil {
			t.Fatal(err)
		}
		set := b.statefulSet()
		change(&set.Spec.Template.Spec)
		fields, err := desiredFields(set)
		if err != nil {
			t.Fatal(err)
		}
		return contentHash(fields)
	}
	same := hash(func(*corev1.PodSpec) {})
	for name, change := range map[string]func(*corev1.PodSpec){
		"the front's image":    func(s *corev1.PodSpec) { s.InitContainers[0].Image = "another" },
		"the agent's image":    func(s *corev1.PodSpec) { s.Containers[0].Image = "another" },
		"the front's command":  func(s *corev1.PodSpec) { s.InitContainers[0].Command = []string{"/bin/sh"} },
		"the agent's command":  func(s *corev1.PodSpec) { s.Containers[0].Command = []string{"/bin/sh"} },
		"the front's variable": func(s *corev1.PodSpec) { s.InitContainers[0].Env[1].Value = "1" },
		"a token":              func(s *corev1.PodSpec) { s.AutomountServiceAccountToken = new(true) },
	} {
		if hash(change) == same {
			t.Errorf("%s does not change the hash", name)
		}
	}
}
