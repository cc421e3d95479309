package agent

import (
	"slices"
	"strings"
	"time"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// Software is one of the two images that an agent's pod runs, and what the last release that reached it did.
type Software struct {
	image.Choice
	Update Update
}

// ImageWish is a client's request for an image. It is not stored: the store that commits it looks it up in the catalog.
type ImageWish struct {
	Selection string
	// Instead is taken if the catalog no longer offers the selection; empty for nothing.
	Instead string
	At      time.Time
}

// choosesImage reports whether a change needs the catalog: a client asks for an image, or the agent starts, or its
// client restarts it, or it needs a front that knows the gate.
func (a Agent) choosesImage(before Agent) bool {
	return a.ImageWish != nil || a.Started(before) || a.WantsPod() && a.Rollout != before.Rollout ||
		a.becomesRestricted(before)
}

// becomesRestricted reports whether a change gives the gate to an agent with a pod. Its front may be of a release that
// did not know the gate.
func (a Agent) becomesRestricted(before Agent) bool {
	return a.WantsPod() && before.ID != "" && a.Egress.Restricted() && !before.Egress.Restricted()
}

// ImagesToChooseFrom names the entries of the catalog that ChooseImages needs.
func (a Agent) ImagesToChooseFrom() []string {
	ids := []string{image.FrontID, a.imageID()}
	if a.ImageWish != nil {
		id, _, _ := strings.Cut(a.ImageWish.Selection, "@")
		ids = append(ids, id)
	}
	return slices.Compact(ids)
}

// ChooseImages decides what the agent's pod runs from its next start on. before is the zero Agent for a new agent.
// Errors: those of image.Set.Choose, Conflict (image_differs) for another image than the agent's.
func (a *Agent) ChooseImages(before Agent, images image.Set) error {
	wish := a.ImageWish
	a.ImageWish = nil
	if starts := wish == nil || a.Started(before); starts || a.becomesRestricted(before) {
		a.follow(&a.Front, image.FrontID, images)
	}
	switch {
	case wish != nil:
		return a.chooseImage(*wish, before, images)
	case before.ID == "":
		current, err := a.selected(image.DefaultID, images)
		a.Image.Choice = current
		return err
	case a.becomesRestricted(before) && !a.Started(before) && a.Rollout == before.Rollout:
		return nil // its own image stays
	case a.imageOpen(a.UpdatedAt):
		a.follow(&a.Image, a.imageID(), images)
	}
	return nil
}

// follow makes a start take the default version of an image, unless the agent went back from it, or runs a newer one: a
// release has moved it, or its client has.
func (a *Agent) follow(s *Software, id string, images image.Set) {
	current, ok := images.Current(id, a.Cell)
	refused := s.Update.State == UpdateReverted && s.Update.Version == current.Version
	if ok && !refused && a.CanRun(current) && !images.Newer(id, a.Cell, s.Version, current.Version) {
		a.take(s, current, a.UpdatedAt)
	}
}

// selected returns the choice of an image. A deployment that names no image has no choice.
func (a Agent) selected(selection string, images image.Set) (image.Choice, error) {
	size, err := plan.Get(a.Plan)
	if err != nil {
		return image.Choice{}, err
	}
	if _, known := images.Get(image.DefaultID, a.Cell); !known && selection == image.DefaultID {
		return image.Choice{}, nil
	}
	return images.Choose(image.Wish{Selection: selection, Plan: size, Cell: a.Cell})
}

// chooseImage gives the agent the image that its client asks for.
func (a *Agent) chooseImage(wish ImageWish, before Agent, images image.Set) error {
	chosen, err := a.selected(wish.Selection, images)
	if err != nil && wish.Instead != "" {
		chosen, err = a.selected(wish.Instead, images)
	}
	switch {
	case err != nil:
		return err
	case before.ID == "" && a.CanRun(chosen):
		a.Image.Choice = chosen
	case before.ID != "" && chosen.ID != a.imageID():
		return fault.New(fault.Conflict, "image_differs",
			"The agent runs the image %s. Another image has other files in /data: create another agent for it.",
			a.imageID()).WithMeta(a.ConflictMeta())
	case !a.CanRun(chosen):
		return a.sandboxImpossible()
	case !chosen.Same(a.Image.Choice):
		a.take(&a.Image, chosen, wish.At)
		a.RevertReason = nil
		a.UpdatedAt = wish.At
		a.replacePod(wish.At)
	case chosen.Version != a.Image.Version: // another name of the same build
		a.take(&a.Image, chosen, wish.At)
		a.UpdatedAt = wish.At
	}
	if chosen.ID == image.CustomID {
		a.Sandbox, a.ImagePolicy = true, image.Pinned
	}
	return nil
}

// CanRun reports whether the agent, sandboxed or not, can run an image. A custom image says nothing of its kernel.
func (a Agent) CanRun(c image.Choice) bool { return !a.Sandbox || c.Kernel != image.KernelLinux }

// sandboxImpossible refuses an image in a sandbox that lacks what the image needs.
func (a Agent) sandboxImpossible() error {
	return fault.New(fault.Conflict, "image_needs_linux_kernel",
		"The image needs system calls that the sandbox does not have. Run the agent without the sandbox, or with "+
			"another image.").WithMeta(a.ConflictMeta())
}

// imageID is the id of the agent's image. A former release recorded none.
func (a Agent) imageID() string {
	if a.Image.ID == "" {
		return image.DefaultID
	}
	return a.Image.ID
}

// take makes the agent run a choice from the next start of its pod on. A release that is not through with the agent
// loses it, also to another name of the same build: the release could not take the agent back from that.
func (a *Agent) take(s *Software, c image.Choice, now time.Time) {
	same := c.Same(s.Choice)
	if !same {
		a.snapshotBeforeUpdate(s, c, now)
	}
	if !same || c.Version != s.Version {
		s.Update.interrupt()
	}
	s.Choice = c
}

// imageOpen reports whether the agent's policy lets its image change at a time, other than by its client's request. A
// policy that only a later release knows does not.
func (a Agent) imageOpen(now time.Time) bool {
	switch a.ImagePolicy {
	case "", image.Auto:
		return true
	case image.Window:
		return a.MaintenanceWindow != nil && a.MaintenanceWindow.Open(now)
	default:
		return false
	}
}

// Software returns the agent's image or its front, by the id of the image; nil if the agent runs another image.
func (a *Agent) Software(imageID string) *Software {
	switch imageID {
	case image.FrontID:
		return &a.Front
	case a.imageID():
		return &a.Image
	default:
		return nil
	}
}
