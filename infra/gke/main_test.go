//go:build unix

package gke

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

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
	discardLogs()
	goleak.VerifyTestMain(closing{m})
}
