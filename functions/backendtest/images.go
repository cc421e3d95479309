package backendtest

import (
	"strings"
	"testing"

	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// Registry is where the operator keeps the images of the catalog. No answer to a client may name it.
const Registry = "hidden.registry.test/"

// Digest is the digest of a build that a digit names.
func Digest(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// builtIn are the images of a deployment without a catalog.
func builtIn() image.BuiltIn {
	return image.BuiltIn{
		Platform: "registry.test/platform@" + Digest("a"), Agent: "registry.test/agent@" + Digest("b"),
		Registries: []string{"custom.test/"},
	}
}

// PutImages writes a catalog with the image assistant, for agents of the plan starter and above, and a front. The image
// has a deprecated version 1, the default version 2 and a withdrawn version 3. PutImages returns it.
func (b *Backend) PutImages(t testing.TB) image.Image {
	t.Helper()
	version := func(name string, state image.State) image.Version {
		return image.Version{
			Version: name, Reference: Registry + "image@" + Digest(name), State: state, Notes: "Notes of " + name,
		}
	}
	assistant := image.Image{
		ID: "assistant", Name: "Assistant", Description: "Answers.", DefaultVersion: "2", MinPlan: plan.Starter,
		Versions: []image.Version{
			version("1", image.Deprecated), version("2", image.Available), version("3", image.Withdrawn),
		},
	}
	front := image.Image{
		ID: image.FrontID, Name: "Front", DefaultVersion: "9",
		Versions: []image.Version{version("9", image.Available)},
	}
	for _, i := range []*image.Image{&assistant, &front} {
		stored, err := b.ReleaseImages.Put(t.Context(), *i)
		if err != nil {
			t.Fatal(err)
		}
		*i = stored
	}
	return assistant
}
