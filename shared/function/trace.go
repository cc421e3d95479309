package function

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"agents.example/controlplane/shared/audit"
)

// A call is a span in its caller's trace, and the processing of a message is a span in its publisher's trace. If no
// spans are exported (see infra/tracing), they cost almost nothing, and logs and messages still carry the trace id.

const tracerName = "agents.example/controlplane/shared/function"

// startSpan starts the span of a call. A span holds names, methods and statuses only, never text from the client.
func startSpan(req *http.Request, name string) (*http.Request, trace.Span) {
	ctx := propagation.TraceContext{}.Extract(req.Context(), propagation.HeaderCarrier(req.Header))
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parseCloudTrace(req.Header.Get("X-Cloud-Trace-Context")))
	}
	ctx, span := otel.Tracer(tracerName).Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(
			attribute.String("http.request.method", req.Method), attribute.String("faas.trigger", "http")))
	return req.WithContext(ctx), span
}

// endSpan ends the span of a call with its status.
func endSpan(span trace.Span, r audit.Request, status int) {
	span.SetAttributes(attribute.Int("http.response.status_code", status), attribute.String("request_id", r.RequestID))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(status))
	}
	span.End()
}

// parseCloudTrace parses the older header of Google's load balancers: TRACE/SPAN;o=OPTIONS, with the span in decimal.
func parseCloudTrace(header string) trace.SpanContext {
	id, rest, _ := strings.Cut(header, "/")
	number, options, _ := strings.Cut(rest, ";")
	var c trace.SpanContextConfig
	var err error
	if c.TraceID, err = trace.TraceIDFromHex(id); err != nil {
		return trace.SpanContext{}
	}
	span, err := strconv.ParseUint(number, 10, 64)
	if err != nil || span == 0 {
		return trace.SpanContext{}
	}
	for i := range c.SpanID {
		c.SpanID[i] = byte(span >> (8 * (len(c.SpanID) - 1 - i)))
	}
	c.TraceFlags = c.TraceFlags.WithSampled(options == "o=1")
	c.Remote = true
	return trace.NewSpanContext(c)
}

// TraceAttributes returns the message attributes that carry the trace in ctx; nil if there is none. They omit the
// tracestate of the caller's own systems: no worker reads it, and Pub/Sub refuses messages with a long one.
func TraceAttributes(ctx context.Context) map[string]string {
	carried := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carried)
	delete(carried, "tracestate")
	if len(carried) == 0 {
		return nil
	}
	return carried
}

// startMessageSpan starts the span for the processing of a message. It belongs to the publisher's trace and links to
// the trace of the push.
func startMessageSpan(ctx context.Context, name string, m Message) (context.Context, trace.Span) {
	published := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(m.Attributes))
	from := trace.SpanContextFromContext(published)
	if !from.IsValid() {
		return ctx, trace.SpanFromContext(published) // a no-op span
	}
	pushed := trace.LinkFromContext(ctx)
	return otel.Tracer(tracerName).Start(trace.ContextWithRemoteSpanContext(ctx, from), name,
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(pushed), trace.WithAttributes(
			attribute.String("messaging.message.id", m.ID), attribute.Int("messaging.delivery_attempt", m.Attempt)))
}
