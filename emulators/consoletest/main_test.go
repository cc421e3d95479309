//go:build unix

package consoletest_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/emulators/consoletest"
	"agents.example/controlplane/shared/testtier"
)

// suite has the browser and the cloud of this package's tests.
var suite consoletest.Suite

// tabs is how many tests one browser can serve at the same time.
const tabs = 8

func TestMain(m *testing.M) {
	clustertest.SaveCPU()
	flag.StringVar(&suite.Screenshots, "screenshots", "",
		"`directory` of screenshots, also of what tests review; empty is console-screenshots below the temporary directory, "+
			"without reviews")
	if runtime.GOMAXPROCS(0) > tabs {
		_ = flag.Set("test.parallel", strconv.Itoa(tabs)) // -parallel goes before it
	}
	testtier.SilenceLogs()
	// A dependency of the Google libraries starts this goroutine.
	goleak.VerifyTestMain(suite.Run(m), goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
