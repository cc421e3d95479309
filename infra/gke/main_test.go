//go:build unix

package gke

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	discardLogs()
	goleak.VerifyTestMain(shared.Run(m))
}
