package agents

import (
	"github.com/google/jsonschema-go/jsonschema"

	"agents.example/controlplane/shared/dataplane"
)

// publicPath is a path that a client makes public. Which paths may be is checked apart from the schema.
type publicPath string

// JSONSchema implements function.Schemer.
func (publicPath) JSONSchema() *jsonschema.Schema {
	least, most := 1, dataplane.MaxPublicPathBytes
	return &jsonschema.Schema{Type: "string", MinLength: &least, MaxLength: &most}
}

// texts returns the paths as the record has them.
func texts(paths []publicPath) []string {
	list := make([]string, len(paths))
	for i, p := range paths {
		list[i] = string(p)
	}
	return list
}
