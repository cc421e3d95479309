//go:build unix

package gke

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
)

// withFiles gives an agent a config, and a file of each kind.
func withFiles(a agent.Agent) agent.Agent {
	a.NameAtStart, a.Config = a.Name, json.RawMessage(`{"team":"support"}`)
	a.Env = append(slices.Clone(a.Env), agent.EnvVar{Key: "MODEL_API_KEY", SecretVersion: 1})
	a.Files = []agent.File{
		{Path: "/config/key", Secret: "MODEL_API_KEY", Mode: 0o600},
		{Path: "/config/prompt.md", Content: "Be brief.", Mode: 0o644},
		{Path: "/data/key", Secret: "MODEL_API_KEY", Mode: 0o600},
		{Path: "/data/settings.json", Content: "{}", Mode: 0o644},
	}
	return a
}

// TestFiles_GoWithTheEnvironment: the pod starts, the ConfigMap with files is looked after and removed as that of the
// environment, and no secret is in it.
func TestFiles_GoWithTheEnvironment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	input := testRuntimeInput("MODEL_API_KEY")
	a := withFiles(w.newAgent(t))
	a.Status, a.Generation = agent.Running, 3
	w.apply(t, a, input)
	w.awaitReady(t, a)
	a.LastReadyIsolation = agent.Plain
	w.wantDifferences(t, "of an agent with files", a)
	first := filesName(configHash(a))
	plain, err := w.admin.ConfigMaps(a.Namespace()).Get(t.Context(), first, metav1.GetOptions{})
	must(t, err)
	want := map[string]string{"agent.json": `{"team":"support"}`, "file-1": "Be brief.", "file-3": "{}"}
	if diff := cmp.Diff(want, plain.Data); diff != "" || plain.Immutable == nil || !*plain.Immutable {
		t.Errorf("the immutable ConfigMap with files (-want +got):\n%s", diff)
	}
	must(t, w.admin.ConfigMaps(a.Namespace()).Delete(t.Context(), first, metav1.DeleteOptions{}))
	w.wantDifferences(t, "without its files", a, "ConfigMap "+first+": missing")
	w.apply(t, a, input)
	w.wantDifferences(t, "with its files again", a)

	next := a
	next.Generation++
	next.Files, next.Config = nil, nil
	w.apply(t, next, input)
	w.awaitReady(t, next)
	w.wantDifferences(t, "with files of a former generation", next,
		"ConfigMap "+environmentName(configHash(a))+": leftover", "ConfigMap "+first+": leftover")
	w.prune(t, next)
	w.wantEnvironments(t, next, environmentName(configHash(next)))
}

func TestConfigHash_CoversFilesAndConfig(t *testing.T) {
	t.Parallel()
	former := testAgent()
	former.Config = json.RawMessage(`{"a":1}`)
	if configHash(former) != configHash(testAgent()) {
		t.Error("the config of an agent whose pod has no file of it changes the hash: a release would restart it")
	}
	seen := map[string]string{}
	for name, change := range map[string]func(*agent.Agent){
		"nothing": func(*agent.Agent) {},
		"config":  func(a *agent.Agent) { a.Config = json.RawMessage(`{"team":"sales"}`) },
		"name":    func(a *agent.Agent) { a.NameAtStart = "other" },
		"content": func(a *agent.Agent) { a.Files[1].Content = "Be long." },
		"path":    func(a *agent.Agent) { a.Files[1].Path = "/config/other" },
		"mode":    func(a *agent.Agent) { a.Files[1].Mode = 0o600 },
		"no file": func(a *agent.Agent) { a.Files = a.Files[:1] },
	} {
		a := withFiles(testAgent())
		change(&a)
		if other, taken := seen[configHash(a)]; taken {
			t.Errorf("%q and %q have the same hash", name, other)
		}
		seen[configHash(a)] = name
	}
}

// TestFiles_OfSecretsAreInTheSecretOnly also covers the credentials: no volume has their keys.
func TestFiles_OfSecretsAreInTheSecretOnly(t *testing.T) {
	t.Parallel()
	b := blueprintOf(t, withFiles(testAgent()), "MODEL_API_KEY")
	for _, stage := range agent.StageNames() {
		objects, err := b.objects(stage)
		must(t, err)
		for _, o := range objects {
			encoded, err := encode(o)
			must(t, err)
			if _, ok := o.(*corev1.Secret); !ok && bytes.Contains(encoded, []byte("golden-")) {
				t.Errorf("%s holds a secret", targetOf(o))
			}
		}
	}
	for _, v := range b.pod().Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if s := source.Secret; s != nil && (len(s.Items) != 1 || s.Items[0].Key != "MODEL_API_KEY") {
				t.Errorf("the volume %s has %v of the Secret, want the agent's own secret", v.Name, s.Items)
			}
		}
	}
}

func TestJudgeSeed(t *testing.T) {
	t.Parallel()
	seeded := func(now, last corev1.ContainerState) *corev1.Pod {
		return podWith(func(p *corev1.Pod) {
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{
				{Name: seedName, State: now, LastTerminationState: last},
				{Name: frontName, State: waitingFor("PodInitializing")},
			}
		})
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"failed":          {pod: seeded(exited(1, "Error"), corev1.ContainerState{}), want: codeNoFiles},
		"waits to retry":  {pod: seeded(waitingFor("CrashLoopBackOff"), exited(1, "Error")), want: codeNoFiles},
		"is pulled":       {pod: seeded(waitingFor("ErrImagePull"), corev1.ContainerState{}), want: codeImagePull},
		"has ended well":  {pod: seeded(exited(0, "Completed"), corev1.ContainerState{}), want: codeTimeout},
		"lacks an object": {pod: seeded(waitingFor("CreateContainerConfigError"), corev1.ContainerState{}), want: codeNoStart},
	} {
		if got := (desired{hash: "hash"}).judge(c.pod).failure; got == nil || got.Code != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}
