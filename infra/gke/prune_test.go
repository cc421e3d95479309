//go:build unix

package gke

import (
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/provisioning"
)

// environments names the Secrets and ConfigMaps of an agent's environments.
func (w *world) environments(t *testing.T, a agent.Agent) (names []string) {
	t.Helper()
	selected := metav1.ListOptions{LabelSelector: ours}
	secrets, err := w.admin.Secrets(a.Namespace()).List(t.Context(), selected)
	must(t, err)
	for i := range secrets.Items {
		names = append(names, "Secret "+secrets.Items[i].Name)
	}
	maps, err := w.admin.ConfigMaps(a.Namespace()).List(t.Context(), selected)
	must(t, err)
	for i := range maps.Items {
		names = append(names, "ConfigMap "+maps.Items[i].Name)
	}
	slices.Sort(names)
	return names
}

func (w *world) wantEnvironments(t *testing.T, a agent.Agent, names ...string) {
	t.Helper()
	want := []string{}
	for _, name := range names {
		want = append(want, "ConfigMap "+name, "Secret "+name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, w.environments(t, a)); diff != "" {
		t.Errorf("environments (-want +got):\n%s", diff)
	}
}

// changed is an agent's next generation, with another environment.
func changed(a agent.Agent, value string) agent.Agent {
	a.Generation++
	a.Env = []agent.EnvVar{{Key: "LOG_LEVEL", Value: value}}
	return a
}

func (w *world) prune(t *testing.T, a agent.Agent) {
	t.Helper()
	must(t, w.Prune(t.Context(), a))
}

func TestEnvironment_OfAFormerGenerationStaysUntilPruned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.newAgent(t)
	w.apply(t, first, testRuntimeInput())
	second := changed(first, "debug")
	w.apply(t, second, testRuntimeInput(), agent.StageSecrets)
	// The pod of the first generation may restart until the second one's is ready.
	w.wantEnvironments(t, first, environmentName(configHash(first)), environmentName(configHash(second)))
	w.prune(t, first) // a slow worker
	w.wantEnvironments(t, first, environmentName(configHash(first)), environmentName(configHash(second)))
	w.apply(t, second, testRuntimeInput(), agent.StageRuntime)
	w.awaitReady(t, second)
	w.prune(t, second)
	w.wantEnvironments(t, first, environmentName(configHash(second)))
}

func TestEnvironment_CannotBeChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	secrets := w.admin.Secrets(a.Namespace())
	secret, err := secrets.Get(t.Context(), environmentName(configHash(a)), metav1.GetOptions{})
	must(t, err)
	secret.Data[dataplane.EnvAPIKey] = []byte("another")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a change of the Secret: error %v, want Invalid", err)
	}
}

// The first and the third generation have the same environment, so they share its objects.
func TestPrune_KeepsWhatANewerGenerationAppliedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.newAgent(t)
	w.apply(t, first, testRuntimeInput())
	second := changed(first, "debug")
	w.apply(t, second, testRuntimeInput())
	third := changed(second, "info")
	w.apply(t, third, testRuntimeInput(), agent.StageSecrets)
	w.prune(t, second)
	w.wantEnvironments(t, first, environmentName(configHash(first)), environmentName(configHash(second)))
	w.apply(t, third, testRuntimeInput(), agent.StageRuntime)
	w.awaitReady(t, third)
	w.prune(t, third)
	w.wantEnvironments(t, first, environmentName(configHash(third)))
	if err := w.Apply(t.Context(), first, agent.StageSecrets, testRuntimeInput()); !isStale(err, third.Generation) {
		t.Errorf("the first generation applies its environment again: error %v, want Stale", err)
	}
}

// The third generation, which shares the objects of the first, applies them just before a slow worker of the second
// deletes what it has read.
func TestPrune_KeepsWhatWasAppliedAfterItsRead(t *testing.T) {
	t.Parallel()
	w, faster := newWorld(t), newWorld(t)
	first := w.newAgent(t)
	w.apply(t, first, testRuntimeInput())
	second := changed(first, "debug")
	w.apply(t, second, testRuntimeInput())
	third := changed(second, "info")
	var once atomic.Bool
	w.calls.breaks = func(r *http.Request, _ http.RoundTripper) (*http.Response, error) {
		if r.Method == http.MethodDelete && !once.Swap(true) {
			faster.apply(t, third, testRuntimeInput(), agent.StageSecrets)
		}
		return nil, nil
	}
	w.prune(t, second)
	if !once.Load() {
		t.Error("Prune deleted nothing, so it was not overtaken")
	}
	w.wantEnvironments(t, first, environmentName(configHash(first)), environmentName(configHash(second)))
}

// Earlier releases named the objects agent-env. Their agents get new objects with their next change.
func TestPrune_DeletesTheEnvironmentOfEarlierReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Generation = 1
	w.apply(t, a, testRuntimeInput(), agent.StageNamespace)
	labels := map[string]string{labelManagedBy: fieldManager, labelName: agentName, labelAgent: a.ID}
	meta := metav1.ObjectMeta{Name: environmentPrefix, Labels: labels}
	foreign := metav1.ObjectMeta{Name: "agent-env-notes"}
	for _, m := range []metav1.ObjectMeta{meta, foreign} {
		_, err := w.admin.Secrets(a.Namespace()).Create(t.Context(), &corev1.Secret{ObjectMeta: m},
			metav1.CreateOptions{})
		must(t, err)
		_, err = w.admin.ConfigMaps(a.Namespace()).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: m},
			metav1.CreateOptions{})
		must(t, err)
	}
	w.apply(t, a, testRuntimeInput())
	w.wantEnvironments(t, a, environmentPrefix, environmentName(configHash(a)))
	w.prune(t, a)
	w.wantEnvironments(t, a, environmentName(configHash(a)))
	if _, err := w.admin.ConfigMaps(a.Namespace()).Get(t.Context(), foreign.Name,
		metav1.GetOptions{}); err != nil {
		t.Errorf("the foreign ConfigMap: %v, want it kept", err)
	}
}

// Workers cannot list Secrets. The garbage collector makes the loss of a Secret visible.
func TestEnvironment_ADeletedSecretTakesItsConfigMapAlong(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	w.apply(t, a, testRuntimeInput())
	must(t, w.admin.Secrets(a.Namespace()).Delete(t.Context(), environmentName(configHash(a)), metav1.DeleteOptions{}))
	maps := w.admin.ConfigMaps(a.Namespace())
	awaitAbsent(t, maps.Get, environmentName(configHash(a)))
	w.apply(t, a, testRuntimeInput())
	w.wantEnvironments(t, a, environmentName(configHash(a)))
}

func isStale(err error, generation int64) bool {
	var stale *provisioning.Stale
	return errors.As(err, &stale) && stale.Generation == generation
}
