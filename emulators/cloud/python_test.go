package cloud_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"agents.example/controlplane/shared/testtier"
)

// testPythonClient tells a story with the Python client, runs the quick start of its README, and tests its waits and
// its repeats. Python writes nothing into the client's folder.
func testPythonClient(t *testing.T, d deployment) {
	python := testtier.RequirePython(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	args := []string{"-B", "-m", "unittest"}
	for _, module := range []string{"story", "readme", "lists", "repeats"} {
		args = append(args, "tests.test_"+module)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir, cmd.WaitDelay = "../../shared/client/python", 10*time.Second
	cmd.Env = append(cmd.Environ(), "AGENTS_BASE_URL="+d.Ready.BaseURL, "AGENTS_API_KEY="+d.Ready.APIKey)
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "skipped=") {
		t.Errorf("tests of the Python client: %v, want success and none skipped\n%s", err, out)
	}
}
