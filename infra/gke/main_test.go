//go:build unix

package gke

import (
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
)

func TestMain(m *testing.M) {
	clustertest.Prepare()
	discardLogs()
	goleak.VerifyTestMain(shared.Run(m))
}
