//go:build unix

package gke

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

// An object costs one write and no read. Applying the objects again changes nothing.
func TestApply_WritesEachObjectOnceAndIsIdempotent(t *testing.T) {
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
					agent.StageNamespace, agent.StagePolicy, agent.StageIdentity, agent.StageStorage,
					agent.StageRuntime, agent.StageRoute,
				}
			}
			objects := w.objects(t, a, testRuntimeInput(secrets...), stages)
			w.apply(t, a, testRuntimeInput(secrets...), stages...)
			if reads, writes := w.calls.take(); reads != 0 || writes != len(objects) {
				t.Errorf("%d reads and %d writes, want none and %d, the number of objects", reads, writes, len(objects))
			}
			w.awaitReady(t, a)

			before := w.versions(t, objects)
			if len(before) != len(objects) {
				t.Fatalf("%d objects are there, want %d", len(before), len(objects))
			}
			w.apply(t, a, testRuntimeInput(secrets...))
			if diff := cmp.Diff(before, w.versions(t, objects)); diff != "" {
				t.Errorf("applying the same again changed objects (-before +after):\n%s", diff)
			}
			w.wantEnvironment(t, a, secrets)
		})
	}
}

func (w *world) objects(t *testing.T, a agent.Agent, input provisioning.RuntimeInput,
	stages []agent.StageName,
) []object {
	t.Helper()
	b, err := w.blueprint(a, input)
	must(t, err)
	var all []object
	for _, stage := range stages {
		objects, err := b.objects(stage)
		must(t, err)
		all = append(all, objects...)
	}
	return all
}

// versions reads the spec's version of objects, or their resource version where there is none: controllers write
// statuses at any time.
func (w *world) versions(t *testing.T, objects []object) map[string]string {
	t.Helper()
	c, err := w.client("local")
	must(t, err)
	versions := map[string]string{}
	for _, o := range objects {
		there, err := c.getMetadata(t.Context(), targetOf(o))
		must(t, err)
		version := there.GetResourceVersion()
		if targetOf(o).gvk.Kind == "StatefulSet" {
			version = fmt.Sprint(there.GetGeneration())
		}
		versions[targetOf(o).String()] = version
	}
	return versions
}

// wantEnvironment checks what the agent's container is told.
func (w *world) wantEnvironment(t *testing.T, a agent.Agent, secrets []string) {
	t.Helper()
	secret, err := w.admin.Secrets(a.Namespace()).Get(t.Context(), environmentName(configHash(a)), metav1.GetOptions{})
	must(t, err)
	want := map[string]string{
		dataplane.EnvDashboardUsername: "admin", dataplane.EnvDashboardPassword: "golden-password",
		dataplane.EnvAPIKey: "golden-key",
	}
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

func TestApply_RemovesDroppedVariables(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Env = append(a.Env, agent.EnvVar{Key: "OLD_TOKEN", SecretVersion: 1})
	w.apply(t, a, testRuntimeInput("OLD_TOKEN"))
	a.Env = nil
	w.apply(t, a, testRuntimeInput(), agent.StageSecrets, agent.StageRuntime)
	w.wantEnvironment(t, a, nil)
	plain, err := w.admin.ConfigMaps(a.Namespace()).Get(t.Context(), environmentName(configHash(a)), metav1.GetOptions{})
	if err != nil || len(plain.Data) != 0 {
		t.Errorf("ConfigMap has %v (%v), want nothing", plain.Data, err)
	}
	w.awaitReady(t, a)
}
