package function

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/fault"
	"agents.example/controlplane/shared/identity"
)

// NewLogger makes a logger that writes JSON with the field names of Cloud Logging. project is the Google Cloud project that traces
// belong to; it may be empty.
func NewLogger(w io.Writer, level slog.Level, project string) *slog.Logger {
	rename := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch a.Key {
		case slog.LevelKey:
			severity := a.Value.String()
			if severity == "WARN" {
				severity = "WARNING"
			}
			return slog.String("severity", severity)
		case slog.MessageKey:
			a.Key = "message"
		case slog.TimeKey:
			a.Key = "timestamp"
		}
		return a
	}
	h := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: rename})
	return slog.New(traced{h, project})
}

// traced adds the trace of the call to every line.
type traced struct {
	slog.Handler
	project string
}

type traceKey struct{}

// withTrace returns a context that carries the trace id of a call, from the headers Cloud Run sets.
func withTrace(ctx context.Context, h http.Header) context.Context {
	id, _, _ := strings.Cut(h.Get("X-Cloud-Trace-Context"), "/")
	if parts := strings.Split(h.Get("Traceparent"), "-"); len(parts) == 4 {
		id = parts[1]
	}
	if id == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, id)
}

// Handle implements slog.Handler.
func (t traced) Handle(ctx context.Context, r slog.Record) error {
	if id, ok := ctx.Value(traceKey{}).(string); ok && t.project != "" {
		r.AddAttrs(slog.String("logging.googleapis.com/trace", "projects/"+t.project+"/traces/"+id))
	}
	return t.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (t traced) WithAttrs(attrs []slog.Attr) slog.Handler {
	return traced{t.Handler.WithAttrs(attrs), t.project}
}

// WithGroup implements slog.Handler.
func (t traced) WithGroup(name string) slog.Handler {
	return traced{t.Handler.WithGroup(name), t.project}
}

// call is what the one log line of a call is made from.
type call struct {
	function string
	request  *http.Request
	writer   *recorder
	began    time.Time
	err      error
}

// log writes the one line of a call. The URL is logged without its query, which may hold what is not ours to keep.
func (c call) log(ctx context.Context) {
	status := c.writer.status
	level := slog.LevelInfo
	switch {
	case status >= http.StatusInternalServerError && !fault.Is(c.err, fault.Unavailable):
		level = slog.LevelError
	case status >= http.StatusInternalServerError, status < http.StatusBadRequest && c.err != nil: // the latter was broken off
		level = slog.LevelWarn
	}
	r, caller := audit.From(ctx), identity.From(ctx)
	attrs := []slog.Attr{
		slog.String("function", c.function), slog.String("request_id", r.RequestID),
		slog.Group("httpRequest",
			slog.String("requestMethod", c.request.Method), slog.String("requestUrl", c.request.URL.Path),
			slog.Int("status", status), slog.Int64("responseSize", c.writer.size),
			slog.String("userAgent", r.UserAgent), slog.String("remoteIp", r.IP),
			slog.String("latency", time.Since(c.began).String())),
	}
	if caller.ID != "" {
		attrs = append(attrs, slog.String("organization_id", caller.OrganizationID), slog.String("caller_id", caller.ID),
			slog.String("caller_type", string(caller.Type)))
	}
	if e := fault.From(c.err); e != nil {
		attrs = append(attrs, slog.String("code", e.Code))
		if level > slog.LevelInfo {
			attrs = append(attrs, slog.String("error", e.Error()))
		}
	}
	slog.LogAttrs(ctx, level, c.request.Method+" "+c.request.URL.Path, attrs...)
}

// recorder remembers the status and size of a response.
type recorder struct {
	http.ResponseWriter
	status int
	size   int64
}

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.size += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
