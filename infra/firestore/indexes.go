package firestore

import (
	_ "embed" // for the file below
	"slices"
)

//go:embed indexes.json
var indexesJSON []byte

// Indexes is the index file: the composite indexes that the package's queries need, and the fields that need none.
// Terraform deploys it, and the embedded emulator enforces it.
func Indexes() []byte { return slices.Clone(indexesJSON) }
