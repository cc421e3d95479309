//go:build unix

package terraform_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/infra/gke"
	"agents.example/controlplane/infra/gke/admission"
	"agents.example/controlplane/infra/gke/connect"
	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
)

// running returns a new agent that runs an image. Agents with a custom image are sandboxed.
func running(c image.Choice) agent.Agent {
	a := newAgent()
	a.Image.Choice, a.Sandbox = c, c.ID == image.CustomID
	return a
}

// wantAdmitted waits until the cell admits an agent. wantRefused waits until it refuses one with a message.
func wantAdmitted(t *testing.T, clusters *gke.Clusters, what string, a agent.Agent) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := applyAll(ctx, clusters, a); err != nil {
			return fmt.Errorf("%s: %w, want it admitted", what, err)
		}
		return nil
	})
}

func wantRefused(t *testing.T, clusters *gke.Clusters, what string, a agent.Agent, message string) {
	t.Helper()
	clustertest.Eventually(t, func(ctx context.Context) error {
		if err := applyAll(ctx, clusters, a); err == nil || !strings.Contains(cause(err), message) {
			return fmt.Errorf("%s: got %w, want a refusal with %q", what, err, message)
		}
		return nil
	})
}

// catalogOf returns an entry of the catalog with builds by digest.
func catalogOf(id string, digits ...string) image.Image {
	i := image.Image{ID: id}
	for _, digit := range digits {
		i.Versions = append(i.Versions, image.Version{
			Version: digit, Reference: digestOf("registry.example.com/"+id, digit), State: image.Withdrawn,
		})
	}
	return i
}

// choice is what an agent runs that takes a version of an entry.
func choice(i image.Image, version int) image.Choice {
	return image.Choice{
		ID: i.ID, Version: i.Versions[version].Version, Reference: i.Versions[version].Reference, Runtime: i.Runtime,
	}
}

// TestPolicies_AdmitTheCatalog goes through the life of two images of the catalog, whose record the operator's tool
// writes. A deployment in between keeps it.
func TestPolicies_AdmitTheCatalog(t *testing.T) {
	f := policyCell(t) // without t.Parallel: no other test changes what the cell admits
	clusters := f.clusters(t, unboundReconciler)
	cells := admission.New(t.Context(), []connect.Cell{{Name: "cell", Kubeconfig: f.kubeconfig}})
	t.Cleanup(func() { _ = cells.Close() })
	assistant, own := catalogOf("assistant", "1", "2"), catalogOf("own", "3")
	own.Auth = dataplane.AuthImage
	front := catalogOf(image.FrontID)
	front.Versions = []image.Version{{Version: "next", Reference: digestOf("image", "9")}}

	wantRefused(t, clusters, "an image that is not in the catalog", running(choice(assistant, 0)), refusesImage)
	if err := cells.Admit(t.Context(), []image.Image{assistant, front}); err != nil {
		t.Fatal(err)
	}
	kept := running(choice(assistant, 0))
	wantAdmitted(t, clusters, "a version of the catalog", kept)
	wantAdmitted(t, clusters, "another version", running(choice(assistant, 1)))
	released := running(choice(assistant, 1))
	released.Front.Choice = choice(front, 0)
	wantAdmitted(t, clusters, "a version of the front", released)

	wantRefused(t, clusters, "another image", running(choice(own, 0)), refusesImage)
	if err := cells.Admit(t.Context(), []image.Image{own}); err != nil {
		t.Fatal(err)
	}
	knowing := running(choice(own, 0))
	wantAdmitted(t, clusters, "an image that checks credentials itself", knowing)
	spying := running(choice(assistant, 0))
	spying.Image.Auth = dataplane.AuthImage
	wantRefused(t, clusters, "an image that does not", spying, refusesCredentials)

	f.deploy(t)
	wantAdmitted(t, clusters, "a version of the catalog after a deployment", running(choice(assistant, 0)))

	if err := cells.Settle(t.Context(), func(context.Context) ([]image.Image, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, clusters, "a version that no entry has", running(choice(assistant, 0)), refusesImage)
	for what, a := range map[string]agent.Agent{"an image": kept, "an image with credentials": knowing} {
		a.Env = nil
		a.Generation++
		wantAdmitted(t, clusters, "an agent that has "+what+" which the catalog had", a)
	}
}

// deploy applies the record of images again, as apply-cells.sh does.
func (f cellFixture) deploy(t *testing.T) {
	t.Helper()
	for _, o := range cellObjects(t) {
		if o.GetKind() == "ConfigMap" && o.GetName() == "agent-images" {
			if err := apply(t.Context(), f.admin, o); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("the cell has no record of images")
}

// TestPolicies_AdmitCustomImages: an image that is in no record must be in an allowed registry, by digest, and in a
// sandbox, which its agent never leaves.
func TestPolicies_AdmitCustomImages(t *testing.T) {
	t.Parallel()
	clusters := other.prepare(t).clusters(t, unboundReconciler, otherSettings)
	custom := func(reference string) image.Choice { return image.Choice{ID: image.CustomID, Reference: reference} }
	a := running(custom(digestOf("a.example/team/tool", "1")))
	wantAdmitted(t, clusters, "a custom image", a)
	wantAdmitted(t, clusters, "one of the other registry", running(custom(digestOf("b.example:5000/x/y", "1"))))
	for what, reference := range map[string]string{
		"a registry that is not allowed":        digestOf("c.example/team/tool", "1"),
		"a repository that is not allowed":      digestOf("a.example/other/tool", "1"),
		"a name that begins in the same way":    digestOf("a.example/teams/tool", "1"),
		"an allowed registry within the name":   digestOf("c.example/a.example/team/tool", "1"),
		"a path that leads out of the registry": digestOf("a.example/team/../other/tool", "1"),
		"a tag":                                 "a.example/team/tool:latest",
		"a digest of another length":            digestOf("a.example/team/tool", "1") + "1",
		"a second reference after a separator":  "a.example/team/tool " + digestOf("x", "1"),
	} {
		wantRefused(t, clusters, what, running(custom(reference)), refusesImage)
	}
	open := running(custom(digestOf("a.example/team/tool", "1")))
	open.Sandbox = false
	wantRefused(t, clusters, "a custom image outside a sandbox", open, refusesImage)
	a.Sandbox = false
	a.Generation++
	wantRefused(t, clusters, "an agent that leaves the sandbox", a, refusesImage)
	own := running(custom(digestOf("a.example/team/tool", "1")))
	own.Front.Choice = custom(digestOf("a.example/team/tool", "1"))
	wantRefused(t, clusters, "a custom front", own, refusesFront)
}

// TestPolicies_AdmitEveryBuildOfTheControlPlane: an agent's record names the front that it was started with, which may
// be of an older deployment than the cell knows when its objects are restored.
func TestPolicies_AdmitEveryBuildOfTheControlPlane(t *testing.T) {
	t.Parallel()
	clusters := policyCell(t).clusters(t, unboundReconciler)
	a := newAgent()
	a.Front.Choice = image.Choice{ID: image.FrontID, Reference: digestOf("image", "7")}
	wantAdmitted(t, clusters, "an older front", a)
	a = newAgent()
	a.Front.Choice = image.Choice{ID: image.FrontID, Reference: digestOf("image-of-others", "7")}
	wantRefused(t, clusters, "a front of another repository", a, refusesImage)
}
