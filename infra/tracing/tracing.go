// Package tracing sends a sample of the process's spans to Cloud Trace. It does not start spans: package function
// starts those of calls and messages, and the clients of outside systems start those of their calls.
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
	// flushTimeout is how long the answer to a traced request may wait for its spans to be sent.
	flushTimeout = 500 * time.Millisecond
	// stopTimeout is part of the ten seconds in which a process must shut down.
	stopTimeout = 3 * time.Second
)

// Options configure what is traced and where spans are sent.
type Options struct {
	// ProjectID is the Google Cloud project that stores the traces.
	ProjectID string
	// Ratio is the fraction of traces to keep, above 0 and up to 1.
	Ratio float64
	// Client has additional options for the client of Cloud Trace.
	Client []option.ClientOption
}

// Start collects the spans of the whole process until stop is called. stop sends the remaining spans. Spans that cannot
// be sent are lost, and no call fails because of them.
//
// The spans of a request are sent before its answer is complete. Cloud Run takes the CPU away after the answer, so a
// later export would stand still until the next request, and miss its deadline.
func Start(ctx context.Context, o Options) (stop func() error, err error) {
	if o.Ratio <= 0 || o.Ratio > 1 {
		return nil, fmt.Errorf("TRACE_RATIO is %v; want a number above 0 and up to 1, or 0 to disable tracing", o.Ratio)
	}
	exporter, err := cloudtrace.New(cloudtrace.WithProjectID(o.ProjectID),
		cloudtrace.WithContext(context.WithoutCancel(ctx)),
		cloudtrace.WithTraceClientOptions(append([]option.ClientOption{option.WithTelemetryDisabled()}, o.Client...)),
		cloudtrace.WithErrorHandler(otel.GetErrorHandler()))
	if err != nil {
		return nil, fmt.Errorf("open the client of Cloud Trace: %w", err)
	}
	return installProvider(exporter, o.Ratio), nil
}

// installProvider installs a global provider that sends spans to the exporter. It samples by trace id alone, so that
// every function keeps the same traces, whatever a caller says of its trace.
func installProvider(exporter sdk.SpanExporter, ratio float64) (stop func() error) {
	byID := sdk.TraceIDRatioBased(ratio)
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(requestFlusher{sdk.NewBatchSpanProcessor(exporter)}),
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

// requestFlusher sends what was collected whenever a request or a message ends, which are the spans without a parent in
// this process.
type requestFlusher struct{ sdk.SpanProcessor }

// OnEnd implements sdk.SpanProcessor.
func (f requestFlusher) OnEnd(s sdk.ReadOnlySpan) {
	f.SpanProcessor.OnEnd(s)
	if parent := s.Parent(); !s.SpanContext().IsSampled() || parent.IsValid() && !parent.IsRemote() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	if err := f.ForceFlush(ctx); err != nil {
		otel.Handle(fmt.Errorf("send the spans of a request: %w", err))
	}
}
