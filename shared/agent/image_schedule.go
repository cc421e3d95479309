package agent

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/image"
)

// scheduleImage sets when the agent takes another version of its image, and reports whether that changed. Errors:
// Conflict for another policy than pinned of a custom image, Invalid for the policy window without a window.
func (a *Agent) scheduleImage(p Patch) (changed bool, err error) {
	policy, window := a.imagePolicy(), a.MaintenanceWindow
	if p.ImagePolicy != "" {
		policy = p.ImagePolicy
	}
	if p.MaintenanceWindow != nil {
		window = *p.MaintenanceWindow
	}
	switch {
	case a.Image.ID == image.CustomID && policy != image.Pinned:
		return false, fault.New(fault.Conflict, "custom_image_pinned", "A custom image is not in the catalog, so only "+
			"you can move the agent to another version of it: its policy stays pinned.").WithMeta(a.ConflictMeta())
	case policy == image.Window && window == nil:
		field, why := "image_policy", "the policy window needs a maintenance_window"
		if p.MaintenanceWindow != nil {
			field, why = "maintenance_window", "the agent's image_policy window needs one"
		}
		return false, fault.Validation(fault.ValueError([]any{"body", field}, why))
	}
	if policy != a.imagePolicy() {
		a.ImagePolicy, changed = policy, true
	}
	if !sameWindow(window, a.MaintenanceWindow) {
		a.MaintenanceWindow, changed = window, true
	}
	return changed, nil
}

func sameWindow(v, w *image.MaintenanceWindow) bool {
	return equal(reflect.ValueOf(v), reflect.ValueOf(w))
}

// windowViolations checks a maintenance window by the rules that its schema does not have.
func windowViolations(body map[string]any) (found []fault.Violation) {
	window, ok := body["maintenance_window"].(map[string]any)
	if !ok {
		return nil
	}
	window = maps.Clone(window)
	delete(window, "days") // the schema has the rules of these
	delete(window, "hours")
	var w image.MaintenanceWindow
	text, err := json.Marshal(window)
	if err != nil || json.Unmarshal(text, &w) != nil {
		return nil // the schema refuses it
	}
	broken := w.Check()
	for _, field := range slices.Sorted(maps.Keys(broken)) {
		if _, given := window[field]; given {
			found = append(found, fault.ValueError([]any{"body", "maintenance_window", field}, broken[field]))
		}
	}
	return found
}
