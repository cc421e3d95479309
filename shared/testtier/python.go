package testtier

import (
	"os/exec"
	"testing"
)

// RequirePython returns the program Python 3.10 or later, which the Python client needs. Without it, it skips the test.
func RequirePython(t *testing.T) string {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("the Python client is not tested: python3 is not installed")
	}
	const isNew = "import sys; sys.exit(sys.version_info < (3, 10))"
	if err := exec.CommandContext(t.Context(), python, "-c", isNew).Run(); err != nil {
		t.Skip("the Python client is not tested: python3 is older than 3.10")
	}
	return python
}
