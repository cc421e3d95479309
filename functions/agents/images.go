package agents

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/function"
	"agents.example/controlplane/shared/image"
	"agents.example/controlplane/shared/plan"
)

// selection is what a client writes to choose an image.
type selection string

// JSONSchema implements function.Schemer.
func (selection) JSONSchema() *jsonschema.Schema {
	least, most := 1, maxSelection
	return &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most}
}

// maxSelection is the length of the longest reference of an image that registries accept.
const maxSelection = 512

// Images is the answer that lists images, by their ids.
type Images []ImageView

// ImageView is an image in an answer. It names no registry: where the operator keeps images is no concern of clients.
type ImageView struct {
	ID             string        `json:"id" jsonschema:"The image's id, as in image of an agent."`
	Name           string        `json:"name" jsonschema:"The image's name for people."`
	Description    string        `json:"description" jsonschema:"What the image is; empty if the operator says nothing."`
	DocsURL        *string       `json:"docs_url" jsonschema:"Where the image is documented; null if the operator names no page."`
	MinPlan        *plan.ID      `json:"min_plan" jsonschema:"The smallest plan of agents that may run the image; null if all plans may."`
	Kernel         image.Kernel  `json:"kernel" jsonschema:"What the image needs of the kernel: any runs in the sandbox, too; linux does not run there."`
	DefaultVersion string        `json:"default_version" jsonschema:"The version that new agents take, and those that follow releases at their next start."`
	Versions       []VersionView `json:"versions" jsonschema:"The versions that agents may take, newest first. Withdrawn versions are left out."`
}

// VersionView is a version of an image in an answer.
type VersionView struct {
	Version   string      `json:"version" jsonschema:"The version's name."`
	Digest    *string     `json:"digest" jsonschema:"The digest of the build; null if the operator names the build in another way."`
	State     image.State `json:"state" jsonschema:"Deprecated versions can be taken, but another one is the better choice."`
	Notes     string      `json:"notes" jsonschema:"What changed; empty if the operator says nothing."`
	CreatedAt *time.Time  `json:"created_at" jsonschema:"When the operator added the version; null for the version of a service without a catalog."`
}

// AmendSchema adds formats that the types of the fields do not imply.
func (ImageView) AmendSchema(s *jsonschema.Schema) { s.Properties["docs_url"].Format = "uri" }

// Example implements function.Exampler.
func (Images) Example() any {
	const reference = "registry.example.com/assistant@sha256:"
	return showImages([]image.Image{{
		ID: "assistant", Name: "Assistant", Description: "Answers in chats and runs tools.",
		DocsURL: "https://docs.example.com/assistant", MinPlan: plan.Starter, DefaultVersion: "2.1.0",
		Versions: []image.Version{
			{
				Version:   "2.0.4",
				State:     image.Deprecated,
				CreatedAt: time.Date(2026, time.January, 12, 8, 0, 0, 0, time.UTC),
				Reference: reference + "8f1e1c0f5b0b6ce7b7a8cb5f2c4f4f0a3d1f1f8c5c6b2f9f0c5f0e7a4b1d2c3e",
			},
			{
				Version:   "2.1.0",
				State:     image.Available,
				CreatedAt: time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC),
				Reference: reference + "2c9d7f3ab1e84d5f6a7b8c9d0e1f2a3b4c5d6e7f8091a2b3c4d5e6f708192a3b",
				Notes:     "Streams answers. Starts in half the time.",
			},
		},
	}})
}

// ListImages lists what an organization may choose for its agents.
func ListImages(images image.Catalog) function.Route {
	return function.Route{
		Name: "ListImages", Method: http.MethodGet, Path: "/api/v1/images",
		Access: function.Member, Needs: []function.Need{function.Firestore},
		Status: http.StatusOK, Summary: "List the images that agents can run",
		Handle: function.Handle(func(ctx context.Context, _ function.Empty) (Images, error) {
			set, err := images.Images(ctx)
			return showImages(set.Listed()), err
		}),
	}
}

func showImages(listed []image.Image) Images {
	views := make([]ImageView, 0, len(listed))
	for _, i := range listed {
		v := ImageView{
			ID: i.ID, Name: i.Name, Description: i.Description, DefaultVersion: i.DefaultVersion,
			DocsURL: optional(i.DocsURL), MinPlan: optional(i.MinPlan), Versions: []VersionView{},
			Kernel: cmp.Or(i.Kernel, image.KernelAny),
		}
		for _, version := range slices.Backward(i.Versions) {
			if version.State != image.Withdrawn {
				v.Versions = append(v.Versions, VersionView{
					Version: version.Version, Digest: optional(version.Digest()), State: version.State,
					Notes: version.Notes, CreatedAt: optional(version.CreatedAt.UTC()),
				})
			}
		}
		views = append(views, v)
	}
	return views
}

// optional returns nil for the zero value.
func optional[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
