package agent

import (
	"context"
	"strings"
	"time"

	"agents.example/controlplane/shared/identity"
	"agents.example/controlplane/shared/image"
)

// ImageView is what an agent runs, as clients see it. The front is a part of the platform, and clients do not see it.
type ImageView struct {
	ID        string       `json:"id" jsonschema:"The image's id in the catalog, or custom for one that is not in the catalog."`
	Version   string       `json:"version" jsonschema:"The version that the agent runs, or takes at its next start."`
	Digest    *string      `json:"digest" jsonschema:"The digest of that version's build; null if the operator names the build in another way."`
	Available *string      `json:"available_version" jsonschema:"The version of the same image that is released at present; null if the agent has that one or a newer one, or if it is unknown."`
	Policy    image.Policy `json:"policy" jsonschema:"When the agent takes another version: with a release or at its next start (auto), the same but only in its maintenance window (window), or only if a client asks for it (pinned)."`

	MaintenanceWindow *image.MaintenanceWindow `json:"maintenance_window" jsonschema:"Null if the agent has none."`
}

// showImage renders the agent's image; nil if the record names none.
func (a Agent) showImage() *ImageView {
	if a.Image.ID == "" {
		return nil
	}
	return &ImageView{
		ID: a.Image.ID, Version: a.Image.Version, Digest: optional(a.Image.Digest()), Policy: a.imagePolicy(),
		MaintenanceWindow: a.MaintenanceWindow,
	}
}

// imagePolicy is the agent's policy, or the default one.
func (a Agent) imagePolicy() image.Policy {
	if a.ImagePolicy == "" {
		return image.Auto
	}
	return a.ImagePolicy
}

// Display is what views of agents show in addition to the records: their addresses, and the versions in the catalog.
type Display struct {
	Addresses

	// Images may be nil: then no view has an available version.
	Images image.Catalog
}

// catalogPatience is how long a view waits for the catalog.
const catalogPatience = 500 * time.Millisecond

// For returns a function that renders agents for a caller. It reads the catalog once for all of them, when the first
// one needs it. Without an answer the agents have no available version.
func (d Display) For(ctx context.Context, caller identity.Caller) func(Agent) View {
	var images image.Set
	read := d.Images == nil
	return func(a Agent) View {
		v := a.Show(caller, d.Addresses)
		if v.Image == nil || a.Image.ID == image.CustomID {
			return v
		}
		if !read {
			ctx, cancel := context.WithTimeout(ctx, catalogPatience)
			defer cancel()
			images, _ = d.Images.Images(ctx) // the store reports what fails
			read = true
		}
		if version := images.Available(a.Image.Choice, a.Cell); version != "" {
			v.offer(version)
		}
		return v
	}
}

// Show renders one agent for a caller.
func (d Display) Show(ctx context.Context, a Agent, caller identity.Caller) View {
	return d.For(ctx, caller)(a)
}

// offerMark separates the version of the record from that of the image in an entity tag. Neither has it.
const offerMark = ";"

// offer shows that another version is available. The entity tag covers it, because a client that knows the agent's
// record may not know the version yet.
func (v *View) offer(version string) {
	v.Image.Available = &version
	v.entityTag = strings.TrimSuffix(v.entityTag, `"`) + offerMark + version + `"`
}

// recordTag is the entity tag without what the catalog has.
func recordTag(tag string) string {
	if record, _, ok := strings.Cut(tag, offerMark); ok {
		return record + `"`
	}
	return tag
}

// write writes the view as a value.
func (v *ImageView) write(o *object) {
	if v == nil {
		o.null()
		return
	}
	o.open('{')
	o.key("id")
	o.text(v.ID)
	o.key("version")
	o.text(v.Version)
	o.key("digest")
	o.optional(v.Digest)
	o.key("available_version")
	o.optional(v.Available)
	o.key("policy")
	o.text(string(v.Policy))
	o.key("maintenance_window")
	if v.MaintenanceWindow == nil {
		o.null()
	} else {
		o.value(v.MaintenanceWindow)
	}
	o.close('}')
}
