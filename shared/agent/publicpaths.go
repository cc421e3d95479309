package agent

import (
	"fmt"
	"slices"

	"agents.example/controlplane/shared/dataplane"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

// PublicPaths returns a client's list as the record has it: each path once, in order.
func PublicPaths(paths []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(paths)))
}

// setPublicPaths reports whether the paths are others.
func (a *Agent) setPublicPaths(paths []string) (changed bool) {
	changed = !slices.Equal(paths, a.PublicPaths)
	if changed {
		a.PublicPaths = paths
	}
	return changed
}

// publicPathViolations checks the public paths in a body. The schema checks their types, and that there
// are not too many.
func publicPathViolations(body map[string]any) (found []fault.Violation) {
	paths, _ := body["public_paths"].([]any)
	for i, value := range paths[:min(len(paths), image.MaxPublicPaths)] {
		if p, ok := value.(string); ok && len(p) <= dataplane.MaxPublicPathBytes {
			if err := dataplane.CheckPublicPath(p); err != nil {
				found = append(found, fault.ValueError([]any{"body", "public_paths", i}, fmt.Sprint(err)))
			}
		}
	}
	return found
}
