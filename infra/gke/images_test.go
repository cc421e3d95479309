//go:build unix

package gke

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/provisioning"
)

// Each deployment of the control plane has another platform image. An agent keeps the images of its record, and foreign
// changes are found as before.
func TestApply_ANewDeploymentRestartsNoAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.newAgent(t)
	a.Status, a.Generation = agent.Running, 3
	a.Image.Choice = image.Choice{ID: image.DefaultID, Version: "1", Reference: "registry.example/agent@sha256:11"}
	a.Front.Choice = image.Choice{ID: image.FrontID, Version: "1", Reference: "registry.example/platform@sha256:00"}
	w.apply(t, a, testRuntimeInput())
	w.awaitReady(t, a)
	a.LastReadyIsolation = agent.Plain
	later := newWorld(t, func(s *Settings) {
		s.Images.Platform, s.Images.Agent = "registry.example/platform@sha256:33", "registry.example/agent@sha256:44"
	})
	later.wantDifferences(t, "of a new deployment", a)
	before := w.versions(t, []object{later.set(t, a)})
	later.apply(t, a, testRuntimeInput())
	if diff := cmp.Diff(before, w.versions(t, []object{later.set(t, a)})); diff != "" {
		t.Errorf("a repair by the new deployment changed the StatefulSet (-before +after):\n%s", diff)
	}
	w.edit(t, targetOf(later.set(t, a)), types.StrategicMergePatchType,
		`{"spec":{"template":{"spec":{"initContainers":[{"name":"front","image":"another"}]}}}}`)
	later.wantDifferences(t, "after a change of the front's image", a, "StatefulSet agent: changed")
	later.apply(t, a, testRuntimeInput())
	later.wantImages(t, a, a.Front.Reference, a.Image.Reference) // the foreign image is not kept

	moved := a
	moved.Image.Reference = "registry.example/agent@sha256:44"
	moved.Generation++
	later.apply(t, moved, testRuntimeInput())
	later.wantImages(t, moved, a.Front.Reference, "registry.example/agent@sha256:44")
}

// set is the StatefulSet that an agent's record demands.
func (w *world) set(t *testing.T, a agent.Agent) *appsv1.StatefulSet {
	t.Helper()
	b, err := w.blueprint(a, provisioning.RuntimeInput{})
	must(t, err)
	return b.statefulSet()
}

func (w *world) wantImages(t *testing.T, a agent.Agent, front, container string) {
	t.Helper()
	set, err := w.admin.StatefulSets(a.Namespace()).Get(t.Context(), agentName, metav1.GetOptions{})
	must(t, err)
	pod := set.Spec.Template.Spec
	if got := pod.InitContainers[0].Image; got != front {
		t.Errorf("the front's image is %s, want %s", got, front)
	}
	if got := pod.Containers[0].Image; got != container {
		t.Errorf("the agent's image is %s, want %s", got, container)
	}
}
