package cloud_test

import (
	"log/slog"
	"testing"

	"go.uber.org/goleak"

	"agents.example/controlplane/shared/function"
)

func TestMain(m *testing.M) {
	slog.SetDefault(function.NewLogger(&logs, slog.LevelDebug, ""))
	// A dependency of the Google libraries starts this goroutine when it is linked.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
