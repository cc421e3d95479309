//go:build unix

package consoletest_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/testtier"
)

// suite has the browser and the cloud of this package's tests.
var suite consoletest.Suite

func TestMain(m *testing.M) {
	clustertest.SpareCPU()
	flag.StringVar(&suite.Screenshots, "screenshots", "",
		"`directory` of screenshots, also of what tests review; empty is console-screenshots below the temporary directory, "+
			"without reviews")
	testtier.SilenceLogs()
	// A dependency of the Google libraries starts this goroutine.
	goleak.VerifyTestMain(suite.Run(m), goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
