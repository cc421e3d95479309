package webhook_test

import (
	"os"
	"runtime/debug"
	"testing"

	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	testtier.SilenceLogs()
	debug.SetGCPercent(1600) // a schedule leaves much garbage and little else
	os.Exit(m.Run())
}
