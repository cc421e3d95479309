package functions_test

import (
	"slices"
	"testing"

	"agents.example/controlplane/functions"
	"agents.example/controlplane/shared/function"
)

// TestRoutes_NeedFirestoreUnlessPublic fails if the guard of a deployed route would lack the right to read its callers.
func TestRoutes_NeedFirestoreUnlessPublic(t *testing.T) {
	t.Parallel()
	for _, r := range functions.Routes(functions.Dependencies{}) {
		if r.Access != function.Public && !slices.Contains(r.Needs, function.Firestore) {
			t.Errorf("%s has access %s without the need firestore: the guard reads the caller there", r.Name, r.Access)
		}
	}
}
