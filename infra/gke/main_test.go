//go:build unix

package gke

import (
	"testing"

	"go.uber.org/goleak"
)

// closing ends the cluster that tests share before leaks are looked for.
type closing struct{ *testing.M }

func (m closing) Run() int {
	code := m.M.Run()
	shared.close()
	return code
}

func TestMain(m *testing.M) {
	discardLogs()
	goleak.VerifyTestMain(closing{m})
}
