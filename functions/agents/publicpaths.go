package agents

import (
	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/image"
)

// publicPath is a path that a client makes public. Which paths may be is checked apart from the schema.
type publicPath string

// JSONSchema implements function.Schemer.
func (publicPath) JSONSchema() *jsonschema.Schema {
	least, most := 1, dataplane.MaxPublicPathBytes
	return &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most}
}

// publicPaths are all paths that a client makes public.
type publicPaths []publicPath

// ItemBounds implements function.List.
func (publicPaths) ItemBounds() (least, most int) { return 0, image.MaxPublicPaths }

// texts returns the paths as the record has them.
func texts(paths publicPaths) []string {
	list := make([]string, len(paths))
	for i, p := range paths {
		list[i] = string(p)
	}
	return list
}
