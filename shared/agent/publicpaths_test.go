package agent_test

import (
	"slices"
	"testing"

	"agents.example/controlplane/shared/agent"
	"agents.example/controlplane/shared/audit"
)

func TestApply_PublicPathsReplaceThePod(t *testing.T) {
	t.Parallel()
	before := runningOn(t)
	hooks := agent.PublicPaths([]string{"/telegram", "/hooks/", "/telegram"})
	after, err := patched(before, twoVersions("1"), agent.Patch{PublicPaths: &hooks})
	equal(t, "error", err, nil)
	if want := []string{"/hooks/", "/telegram"}; !slices.Equal(after.PublicPaths, want) {
		t.Errorf("public paths = %q, want each once and in order: %q", after.PublicPaths, want)
	}
	equal(t, "restarts", after.Restarts(before), true)
	equal(t, "warms up", after.Warming, true)
	changes := agent.Changes(before, after)
	if want := []audit.Change{{Field: "public_paths", New: "/hooks/ /telegram"}}; !slices.Equal(changes, want) {
		t.Errorf("changes = %v, want %v", changes, want)
	}
	for name, p := range map[string]agent.Patch{"the same": {PublicPaths: &hooks}, "none": {Name: new("b")}} {
		same, err := patched(after, twoVersions("1"), p)
		equal(t, "error of a patch with "+name, err, nil)
		equal(t, "restarts with "+name, same.Restarts(after), false)
		equal(t, "paths are kept with "+name, slices.Equal(same.PublicPaths, hooks), true)
	}
	none, err := patched(after, twoVersions("1"), agent.Patch{PublicPaths: new([]string{})})
	equal(t, "error of an empty list", err, nil)
	equal(t, "paths left by an empty list", len(none.PublicPaths), 0)
	equal(t, "an empty list restarts", none.Restarts(after), true)
}
