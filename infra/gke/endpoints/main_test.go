//go:build unix

package endpoints

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"agents.example/controlplane/emulators/clustertest"
)

// shared is the one real cluster of the package's tests.
var shared clustertest.Shared

// closing ends the cluster that tests share before leaks are looked for.
type closing struct{ *testing.M }

func (m closing) Run() int {
	code := m.M.Run()
	if err := shared.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(klog.Logger{}) // watches that a test ends are logged as warnings
	goleak.VerifyTestMain(closing{m})
}
