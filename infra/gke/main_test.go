//go:build unix

package gke

import (
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	clustertest.Prepare()
	testtier.SilenceLogs()
	goleak.VerifyTestMain(shared.Run(m))
}
