package functiontest

import (
	"os"
	"runtime/debug"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// Main runs the tests of a package without the log lines of the calls that they make. go test -v shows them.
func Main(m *testing.M) {
	debug.SetGCPercent(400) // the tests leave much garbage and little else
	testtier.SilenceLogs()
	os.Exit(m.Run())
}
