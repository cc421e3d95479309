package images_test

import (
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/testtier"
)

func TestMain(m *testing.M) {
	clustertest.Prepare()
	testtier.SilenceLogs()
	// A dependency of the Google libraries starts this goroutine.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
