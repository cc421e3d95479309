package gke

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
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
	must(t, err)
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

// env returns the variables of the agent's container that are values.
func env(t *testing.T, a agent.Agent) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, e := range podOf(t, a).Spec.Containers[0].Env {
		if _, twice := values[e.Name]; twice {
			t.Errorf("the variable %s is there twice", e.Name)
		}
		values[e.Name] = e.Value
	}
	return values
}

// TestPod_KnowsItself: a container is told of its agent. A rename shows at the next start only, and a pod that a former
// release made is told nothing, so that the repair of another object does not replace it.
func TestPod_KnowsItself(t *testing.T) {
	t.Parallel()
	a := testAgent()
	if got := env(t, a); got[dataplane.EnvAgentID] != "" || got[dataplane.EnvHome] != "" {
		t.Errorf("a pod of a former release has the variables %v", got)
	}
	a.NameAtStart = a.Name
	host := a.Hostname(testSettings().Addresses)
	want := map[string]string{
		"AGENT_ID": a.ID, "AGENT_NAME": a.Name, "AGENT_URL": "https://" + host + "/", "AGENT_HOSTNAME": host,
		"AGENT_PLAN": "starter", "AGENT_MEMORY_BYTES": "2147483648", "HOME": "/data", "AGENT_CONFIG_FILE": "",
		"AGENT_CLONE_OF": "",
	}
	got := env(t, a)
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s = %q, want %q", name, got[name], value)
		}
	}
	before := configHash(a)
	clone := a
	clone.CloneOf = "bn6cuvdpdvgq5ha3f5wtvds3sa-k3v7x2ab"
	if got := env(t, clone)["AGENT_CLONE_OF"]; got != "0b7c2a54-6f1d-4d0e-9c1b-2f6d3a8e5b90" {
		t.Errorf("a clone is told that it is one of %q", got)
	}
	a.Name = "Renamed"
	if got := env(t, a)["AGENT_NAME"]; got == a.Name || configHash(a) != before {
		t.Errorf("a rename changes the pod: %q", got)
	}
	a.NameAtStart = "$(API_SERVER_KEY) and $"
	if got := env(t, a)["AGENT_NAME"]; got != "$$(API_SERVER_KEY) and $$" {
		t.Errorf("a name that looks like a reference is %q, want it literal", got)
	}
}

// The router knows a public path as its client wrote it, and so must the front.
func TestPod_FrontGetsPathsAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.PublicPaths, a.Sleep.AfterSeconds = []string{"/hooks/$(AGENT_PORT)", "/pay/$$1"}, 1800
	pod := podOf(t, a, func(s *Settings) {
		s.Images.Runtime.HealthPath, s.Images.Runtime.BusyPath = "/$$up", "/$$busy"
	})
	got := map[string]string{}
	for _, e := range pod.Spec.InitContainers[0].Env {
		got[e.Name] = e.Value
	}
	for name, want := range map[string]string{
		dataplane.EnvAgentPublicPaths: "/hooks/$$(AGENT_PORT),/pay/$$$$1", dataplane.EnvAgentHealthPath: "/$$$$up",
		dataplane.EnvAgentBusyPath: "/$$$$busy",
	} {
		if got[name] != want {
			t.Errorf("%s = %q, want %q, which a kubelet reads as it was written", name, got[name], want)
		}
	}
}

func TestPod_HomeIsOnTheVolumeUnlessVariablesSayOtherwise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		runtime image.Runtime
		own     []agent.EnvVar
		want    string // as a value of the pod
	}{
		"of the data path":       {runtime: image.Runtime{DataPath: "/srv/state"}, want: "/srv/state"},
		"of the image":           {runtime: image.Runtime{DataPath: "/srv/a", Home: "/srv/home"}, want: "/srv/home"},
		"of the image's env":     {runtime: image.Runtime{Env: image.Env{{Name: "HOME", Value: "/x"}}}, want: "/x"},
		"of the agent's own env": {own: []agent.EnvVar{{Key: "HOME", Value: "/mine"}}},
	} {
		a := testAgent()
		a.NameAtStart, a.Env = a.Name, c.own
		a.Image.Choice = image.Choice{ID: "a", Version: "1", Reference: "registry.example/a@sha256:1"}
		a.Image.Runtime = c.runtime
		if got := env(t, a)["HOME"]; got != c.want {
			t.Errorf("HOME %s: %q, want %q", name, got, c.want)
		}
	}
}

func TestPod_FollowsTheRuntime(t *testing.T) {
	t.Parallel()
	a := testAgent()
	a.NameAtStart, a.Env = a.Name, []agent.EnvVar{{Key: "B_TOKEN", SecretVersion: 1}}
	a.Image.Choice = image.Choice{ID: "a", Version: "1", Reference: "registry.example/a@sha256:1"}
	a.Image.Runtime = image.Runtime{
		DataPath: "/srv/state", GraceSeconds: 315, Auth: dataplane.AuthImage,
		Env: image.Env{{Name: "A_KEY", Value: "$(API_SERVER_KEY)"}, {Name: "A_PORT", Value: "$(PORT)"}},
	}
	pod := podOf(t, a).Spec
	if got := *pod.TerminationGracePeriodSeconds; got != 315 {
		t.Errorf("the pod may take %d s to end, want 315", got)
	}
	if got := pod.Containers[0].VolumeMounts[0].MountPath; got != "/srv/state" {
		t.Errorf("the volume is mounted at %s, want /srv/state", got)
	}
	// Kubernetes expands references to variables before the one that has them.
	names := variables(t, pod.Containers[0])
	for _, before := range []string{"PORT", "API_SERVER_KEY", "B_TOKEN"} {
		if slices.Index(names, before) < 0 || slices.Index(names, before) > slices.Index(names, "A_KEY") {
			t.Errorf("the variables are %v, want %s before those of the image", names, before)
		}
	}
	if got := *podOf(t, testAgent()).Spec.TerminationGracePeriodSeconds; got != 30 {
		t.Errorf("a pod of an image that names no time may take %d s to end, want 30", got)
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
		b := blueprintOf(t, testAgent())
		set := b.statefulSet()
		change(&set.Spec.Template.Spec)
		fields, err := desiredFields(set)
		must(t, err)
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
