package kinds

import (
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v2"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// The schema is that of the types that server-side apply merges: which lists are sets or maps, by which keys, and which
// defaults the keys have. The generator reads it from the pinned release of client-go, which does not export it.
//
//go:generate go run ./generate

//go:embed schema.yaml
var schemaText string

// newParser reads the schema. It skips the validation of typed.NewParser, which takes longer than reading does: a test
// does it.
func newParser() (*typed.Parser, error) {
	p := &typed.Parser{}
	if err := yaml.UnmarshalStrict([]byte(schemaText), &p.Schema); err != nil {
		return nil, fmt.Errorf("read the schema of Kubernetes' types: %w", err)
	}
	return p, nil
}
