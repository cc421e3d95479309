package image

import (
	"fmt"
	"slices"
	"strings"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/plan"
)

const (
	// DefaultID is the image of an agent whose creator names none. The deployment's settings describe it, unless the
	// catalog does.
	DefaultID = "default"
	// FrontID is the platform's own image, which runs the front of every agent. It is released like an image, and no
	// agent chooses it.
	FrontID = "front"
	// CustomID is the id of images that are no entry of the catalog: an agent names one by its reference.
	CustomID = "custom"
)

// sampleCommand runs the sample agent of the platform's image.
const sampleCommand = "/ko-app/sampleagent"

// BuiltIn are the images that a deployment's settings name.
type BuiltIn struct {
	// Platform is the control plane's own image, by digest. It runs the front of every agent.
	Platform string
	// Agent is the image DefaultID, by digest; a cell may have its own in Cells. If empty, agents run the sample agent
	// of Platform.
	Agent string
	Cells map[string]string
	// Runtime is how Agent is run, and every custom image.
	Runtime Runtime
	// Registries are the beginnings of references that custom images may have, such as "registry.example.com/team/".
	Registries []string
}

// image is the built-in image for agents of a cell.
func (b BuiltIn) image(id, cell string) (Image, bool) {
	reference, runtime, name := b.Platform, Runtime{}, "Front"
	if id == DefaultID {
		name, runtime = "Default", b.Runtime
		runtime.Command = []string{sampleCommand}
		if b.Agent != "" {
			reference, runtime.Command = b.Agent, b.Runtime.Command
		}
		if own := b.Cells[cell]; own != "" {
			reference, runtime.Command = own, b.Runtime.Command
		}
	}
	if reference == "" || id != DefaultID && id != FrontID {
		return Image{}, false
	}
	version := shortVersion(reference)
	return Image{
		ID: id, Name: name, DefaultVersion: version, Runtime: runtime,
		Versions: []Version{{Version: version, Reference: reference, State: Available}},
	}, true
}

// shortVersion names a version by its build: the first digits of the digest.
func shortVersion(reference string) string {
	if _, digest, ok := strings.Cut(reference, "@sha256:"); ok {
		return digest[:min(len(digest), 12)]
	}
	return reference[strings.LastIndexAny(reference, ":/")+1:]
}

// Set has all images of a deployment at one time: those of the catalog, and the built-in ones that the catalog does not
// describe.
type Set struct {
	Catalog []Image
	BuiltIn BuiltIn
}

// Get finds an image, as agents of a cell run it.
func (s Set) Get(id, cell string) (Image, bool) {
	for _, i := range s.Catalog {
		if i.ID == id {
			return i, true
		}
	}
	return s.BuiltIn.image(id, cell)
}

// Listed lists the images that clients may choose, sorted by id.
func (s Set) Listed() []Image {
	listed := slices.DeleteFunc(slices.Clone(s.Catalog), func(i Image) bool { return i.ID == FrontID })
	if !slices.ContainsFunc(listed, func(i Image) bool { return i.ID == DefaultID }) {
		if i, ok := s.BuiltIn.image(DefaultID, ""); ok {
			listed = append(listed, i)
		}
	}
	slices.SortFunc(listed, func(a, b Image) int { return strings.Compare(a.ID, b.ID) })
	return listed
}

// Current is what an agent of a cell takes when nothing names a version; false if there is no such image, or if its
// default version is withdrawn.
func (s Set) Current(id, cell string) (Choice, bool) {
	i, ok := s.Get(id, cell)
	if !ok {
		return Choice{}, false
	}
	v, ok := i.Find(i.DefaultVersion)
	return i.choice(v), ok && v.State != Withdrawn
}

// Newer reports whether a version of an image was added to it after another one, and is not withdrawn.
func (s Set) Newer(id, cell, version, than string) bool {
	i, _ := s.Get(id, cell)
	at := func(name string) int {
		return slices.IndexFunc(i.Versions, func(v Version) bool { return v.Version == name })
	}
	return at(than) >= 0 && at(version) > at(than) && i.Versions[at(version)].State != Withdrawn
}

// Available names the version that agents of a cell could take in place of a choice: the image's default version,
// unless the choice is that one or a newer one that was not withdrawn. It is empty if there is none, and for a custom
// image.
func (s Set) Available(c Choice, cell string) string {
	current, ok := s.Current(c.ID, cell)
	if !ok || current.Version == c.Version || s.Newer(c.ID, cell, c.Version, current.Version) {
		return ""
	}
	return current.Version
}

// Target is what agents of a cell run after a release of a version. Errors: one that says why the version cannot be
// released.
func (s Set) Target(id, version, cell string) (Choice, error) {
	i, ok := s.Get(id, cell)
	if !ok {
		return Choice{}, fmt.Errorf("there is no image %q", id)
	}
	v, err := i.offered(version)
	if err != nil {
		return Choice{}, err
	}
	return i.choice(v), nil
}

// offered returns a version that agents may take. The error says why they may not.
func (i Image) offered(version string) (Version, error) {
	v, ok := i.Find(version)
	switch {
	case !ok:
		return Version{}, fmt.Errorf("the image %s has no version %q", i.ID, version)
	case v.State == Withdrawn:
		return Version{}, fmt.Errorf("version %s of the image %s was withdrawn", version, i.ID)
	}
	return v, nil
}

// Wish is a client's request for an image.
type Wish struct {
	// Selection is "<id>", "<id>@<version>", or the reference of a custom image.
	Selection string
	Plan      plan.Plan
	Cell      string
}

// Choose returns what an agent runs whose client asks for an image. Errors: Invalid (at body.image) for an image or a
// version that does not exist or is withdrawn, PaymentRequired if the agent's plan is too small.
func (s Set) Choose(w Wish) (Choice, error) {
	if strings.Contains(w.Selection, "/") {
		return s.custom(w)
	}
	id, version, named := strings.Cut(w.Selection, "@")
	i, ok := s.Get(id, w.Cell)
	if !ok || id == FrontID {
		return Choice{}, invalid(fmt.Sprintf("there is no image %q; GET /api/v1/images lists them", id))
	}
	if !named {
		version = i.DefaultVersion
	}
	v, err := i.offered(version)
	if err != nil {
		return Choice{}, invalid(err.Error())
	}
	if smallest, err := plan.Get(i.MinPlan); i.MinPlan != "" && (err != nil || !smallest.Fits(w.Plan)) {
		return Choice{}, fault.New(fault.PaymentRequired, "image_plan_required",
			"The image %s needs a resource plan of %s or larger; the agent has %s.", id, i.MinPlan, w.Plan.ID).
			WithMeta(map[string]any{"resource_plan": i.MinPlan, "current": w.Plan.ID})
	}
	return i.choice(v), nil
}

// custom returns the choice of an image that is no entry of the catalog.
func (s Set) custom(w Wish) (Choice, error) {
	allowed := slices.ContainsFunc(s.BuiltIn.Registries, func(r string) bool {
		return strings.HasPrefix(w.Selection, r)
	})
	switch {
	case !referencePattern().MatchString(w.Selection):
		return Choice{}, invalid("a custom image is named by its digest: registry/repository@sha256:…")
	case !w.Plan.Has(plan.CustomImages):
		return Choice{}, fault.New(fault.PaymentRequired, "custom_images_required",
			"Custom images need a resource plan with the feature custom_images; the agent has %s.", w.Plan.ID).
			WithMeta(map[string]any{"resource_plan": plan.With(plan.CustomImages), "current": w.Plan.ID})
	case !allowed && len(s.BuiltIn.Registries) == 0:
		return Choice{}, invalid("this service allows no custom images")
	case !allowed:
		return Choice{}, invalid("the registry is not allowed; want one that begins with " +
			strings.Join(s.BuiltIn.Registries, " or "))
	}
	return Choice{
		ID: CustomID, Version: shortVersion(w.Selection), Reference: w.Selection, Runtime: s.BuiltIn.Runtime,
	}.Clone(), nil
}

func invalid(why string) error {
	return fault.Validation(fault.ValueError([]any{"body", "image"}, why))
}
