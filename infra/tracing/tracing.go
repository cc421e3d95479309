// Package tracing knows Cloud Trace: which part of the calls is traced, and how spans are sent there. It does not know
// what a span is of: package function starts those of calls and messages, and the clients of outside systems those of
// their own calls.
package tracing

import (
	"context"
	"fmt"
	"time"

	cloudtrace "github.com/GoogleCloudPlatform/opentelemetry-operations-go/exporter/trace"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/api/option"
)

const (
	// sendEvery is short: a function has the processor while it works, and little of it after.
	sendEvery = time.Second
	// stopTimeout is part of the ten seconds that a process has for its end.
	stopTimeout = 3 * time.Second
)

// Options say what is traced, and where to.
type Options struct {
	// ProjectID is the Google Cloud project whose traces these are.
	ProjectID string
	// Ratio is the part of traces that is kept, above 0 and up to 1.
	Ratio float64
	// Client configures the client of Cloud Trace beyond Google's defaults.
	Client []option.ClientOption
}

// Start has spans collected for the whole process until stop is called, which sends what is left. What fails to be sent
// is lost, and no call fails for it.
func Start(ctx context.Context, o Options) (stop func() error, err error) {
	if o.Ratio <= 0 || o.Ratio > 1 {
		return nil, fmt.Errorf("TRACE_RATIO is %v: want a number above 0 and up to 1, or 0 to trace nothing", o.Ratio)
	}
	exporter, err := cloudtrace.New(cloudtrace.WithProjectID(o.ProjectID),
		cloudtrace.WithContext(context.WithoutCancel(ctx)),
		cloudtrace.WithTraceClientOptions(append([]option.ClientOption{option.WithTelemetryDisabled()}, o.Client...)),
		cloudtrace.WithErrorHandler(otel.GetErrorHandler()))
	if err != nil {
		return nil, fmt.Errorf("open the client of Cloud Trace: %w", err)
	}
	return collect(exporter, o.Ratio), nil
}

// collect has spans sent by an exporter. Every function decides by the trace's id alone, so that all of them keep the
// same traces, and no caller's flag has all of its own kept.
func collect(exporter sdk.SpanExporter, ratio float64) (stop func() error) {
	byID := sdk.TraceIDRatioBased(ratio)
	provider := sdk.NewTracerProvider(
		sdk.WithBatcher(exporter, sdk.WithBatchTimeout(sendEvery)),
		sdk.WithSampler(sdk.ParentBased(byID, sdk.WithRemoteParentSampled(byID), sdk.WithRemoteParentNotSampled(byID))),
	)
	otel.SetTracerProvider(provider)
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			return fmt.Errorf("send the last spans: %w", err)
		}
		return nil
	}
}
