//go:build unix

package cellwatch

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"agents.example/controlplane/emulators/clustertest"
)

// shared is the one real cluster of the package's tests.
var shared clustertest.Shared

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(klog.Logger{}) // watches that a test ends are logged as warnings
	goleak.VerifyTestMain(shared.Run(m))
}
