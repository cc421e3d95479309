package testtier

import (
	"context"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Python finds the program that python3 runs. That may be a script that looks for it, and most of a short run would be
// the search.
var Python = sync.OnceValues(func() (string, error) {
	out, err := exec.CommandContext(context.Background(), "python3", "-c", "import sys; print(sys.executable)").Output()
	return strings.TrimSpace(string(out)), err
})

// RequirePython returns the program Python 3.10 or later, which the Python client needs. Without it, it skips the test.
func RequirePython(t *testing.T) string {
	t.Helper()
	python, err := Python()
	if err != nil {
		t.Skip("the Python client is not tested: python3 is not installed")
	}
	const isNew = "import sys; sys.exit(sys.version_info < (3, 10))"
	if err := exec.CommandContext(t.Context(), python, "-c", isNew).Run(); err != nil {
		t.Skip("the Python client is not tested: python3 is older than 3.10")
	}
	return python
}
