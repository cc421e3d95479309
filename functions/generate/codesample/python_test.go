package codesample_test

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// TestSamples_OfPythonCompile compiles a function for each sample. A test of functions runs them.
func TestSamples_OfPythonCompile(t *testing.T) {
	t.Parallel()
	all := samples(t, "Python")
	var code strings.Builder
	for _, id := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&code, "def %s():\n    %s\n", id, strings.ReplaceAll(all[id], "\n", "\n    "))
	}
	python := testtier.RequirePython(t)
	const program = "import sys; compile(sys.stdin.read(), 'samples', 'exec')"
	cmd := exec.CommandContext(t.Context(), python, "-B", "-c", program)
	cmd.Stdin = strings.NewReader(code.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the samples do not compile: %v\n%s", err, out)
	}
}
