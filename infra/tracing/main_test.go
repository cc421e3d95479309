package tracing

import (
	"os"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

// TestMain silences the log of the functions that tests call.
func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	os.Exit(m.Run())
}
