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
	after := mustPatch(t, before, twoVersions("1"), agent.Patch{PublicPaths: &hooks})
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
		same := mustPatch(t, after, twoVersions("1"), p)
		equal(t, "restarts with "+name, same.Restarts(after), false)
		equal(t, "paths are kept with "+name, slices.Equal(same.PublicPaths, hooks), true)
	}
	none := mustPatch(t, after, twoVersions("1"), agent.Patch{PublicPaths: new([]string{})})
	equal(t, "paths left by an empty list", len(none.PublicPaths), 0)
	equal(t, "an empty list restarts", none.Restarts(after), true)
}
