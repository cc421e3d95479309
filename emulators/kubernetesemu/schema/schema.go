// Package schema holds the schema of the types of Kubernetes that the embedded API server merges in server-side apply:
// which lists are sets or maps, by which keys, and which defaults the keys have. It does not merge.
package schema

import (
	_ "embed"
	"fmt"

	"go.yaml.in/yaml/v2"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// The generator reads the schema from the pinned release of client-go, which does not export it.
//
//go:generate go run ./generate

//go:embed schema.yaml
var text string

// Parser reads the schema. It skips the validation of typed.NewParser, which takes longer than reading does: a test
// does it.
func Parser() (*typed.Parser, error) {
	p := &typed.Parser{}
	if err := yaml.UnmarshalStrict([]byte(text), &p.Schema); err != nil {
		return nil, fmt.Errorf("read the schema of Kubernetes' types: %w", err)
	}
	return p, nil
}
