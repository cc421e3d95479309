package cloud_test

import (
	"log/slog"
	"testing"

	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"agents.example/controlplane/emulators/clustertest"
	"agents.example/controlplane/shared/function"
)

// spans records all spans of this process.
var spans = tracetest.NewSpanRecorder()

func TestMain(m *testing.M) {
	clustertest.Prepare()
	slog.SetDefault(function.NewLogger(&logs, slog.LevelDebug, ""))
	otel.SetTracerProvider(sdk.NewTracerProvider(sdk.WithSpanProcessor(spans),
		sdk.WithSampler(sdk.ParentBased(sdk.NeverSample()))))
	// A dependency of the Google libraries starts this goroutine.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
