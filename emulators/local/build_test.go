package main

import (
	"strings"
	"testing"
)

func TestPartsToBuild_FollowTheKindOfNodes(t *testing.T) {
	t.Parallel()
	const simulated = "The real Kubernetes API server, The folder with the programs of functions, " +
		"The folder with the programs of pods"
	for args, want := range map[string]string{
		"":                simulated,
		"-node=simulated": simulated,
		"-node=real":      "The real Kubernetes node, " + simulated + ", The folder with the programs of images",
	} {
		parts, err := partsToBuild(strings.Fields(args))
		var names []string
		for _, p := range parts {
			names = append(names, p.name)
		}
		if got := strings.Join(names, ", "); err != nil || got != want {
			t.Errorf("build %s builds %q (%v), want %q", args, got, err, want)
		}
	}
	for _, args := range []string{"-node=virtual", "more"} {
		if _, err := partsToBuild([]string{args}); err == nil || !strings.Contains(err.Error(), "not \"more\"") &&
			!strings.Contains(err.Error(), "want simulated or real") {
			t.Errorf("build %s: error = %v, want one that says what is accepted", args, err)
		}
	}
}
