package function

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agents.example/controlplane/shared/audit"
	"agents.example/controlplane/shared/call"
	"agents.example/controlplane/shared/fault"
)

// NewLogger returns a logger that writes JSON with the field names of Cloud Logging. project is the Google Cloud
// project of the traces; if it is empty, lines carry no trace.
func NewLogger(w io.Writer, level slog.Level, project string) *slog.Logger {
	h := slog.NewJSONHandler(renamer{w}, &slog.HandlerOptions{Level: level})
	return slog.New(cloudLogHandler{h, project})
}

// renamer gives the level and the message of a line the names of Cloud Logging. slog begins each line with the time,
// the level and the message, and writes a line in one call. slog.HandlerOptions.ReplaceAttr could rename them, too, but
// it is called for each attribute, which takes as long as all else in a line. slog's "time" already has the right name.
type renamer struct{ io.Writer }

// Write implements io.Writer.
func (r renamer) Write(line []byte) (int, error) {
	const level, message = `"level":"`, `,"msg":`
	start, rest, _ := bytes.Cut(line, []byte(level))
	severity, rest, found := bytes.Cut(rest, []byte(message))
	if !found {
		return r.Writer.Write(line)
	}
	if string(severity) == `WARN"` {
		severity = []byte(`WARNING"`)
	}
	renamed := make([]byte, 0, len(line)+len("severity")+len("message"))
	renamed = append(append(append(renamed, start...), `"severity":"`...), severity...)
	renamed = append(append(renamed, `,"message":`...), rest...)
	if _, err := r.Writer.Write(renamed); err != nil {
		return 0, err
	}
	return len(line), nil
}

// cloudLogHandler adds the call's trace to every line, and the fields of Error Reporting to errors.
type cloudLogHandler struct {
	slog.Handler
	project string
}

// Handle implements slog.Handler.
func (t cloudLogHandler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		r.AddAttrs(errorReportAttrs(r)...)
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() && t.project != "" {
		r.AddAttrs(
			slog.String("logging.googleapis.com/trace", "projects/"+t.project+"/traces/"+span.TraceID().String()),
			slog.String("logging.googleapis.com/spanId", span.SpanID().String()),
			slog.Bool("logging.googleapis.com/trace_sampled", span.IsSampled()))
	}
	return t.Handler.Handle(ctx, r)
}

// errorReportAttrs returns the attributes that Error Reporting requires: the type, and the source location by which it
// groups errors.
func errorReportAttrs(r slog.Record) []slog.Attr {
	frame, _ := runtime.CallersFrames([]uintptr{r.PC}).Next()
	return []slog.Attr{
		slog.String("@type", "type.googleapis.com/google.devtools.clouderrorreporting.v1beta1.ReportedErrorEvent"),
		slog.Group("context", slog.Group("reportLocation",
			slog.String("filePath", frame.File), slog.Int("lineNumber", frame.Line),
			slog.String("functionName", frame.Function))),
	}
}

// WithAttrs implements slog.Handler.
func (t cloudLogHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return cloudLogHandler{t.Handler.WithAttrs(attrs), t.project}
}

// WithGroup implements slog.Handler.
func (t cloudLogHandler) WithGroup(name string) slog.Handler {
	return cloudLogHandler{t.Handler.WithGroup(name), t.project}
}

// callLine holds the input of a call's log line.
type callLine struct {
	function string
	budget   *LineBudget
	request  *http.Request
	writer   *statusRecorder
	began    time.Time
	err      error
}

// log writes the one log line of a call, if the budget has room for it. It omits the query of the URL, which may
// contain secrets, and the rest of a long path: the budget counts lines, so each must be short.
func (c callLine) log(ctx context.Context) {
	status := c.writer.status
	level := slog.LevelInfo
	switch {
	case status >= http.StatusInternalServerError && !fault.Is(c.err, fault.Unavailable):
		level = slog.LevelError
	case status >= http.StatusInternalServerError,
		status < http.StatusBadRequest && c.err != nil: // a stream that failed after its first bytes
		level = slog.LevelWarn
	}
	made := call.From(ctx)
	var leftOut int64
	if c.budget.bounds(level, status, c.err, made) {
		var ok bool
		if leftOut, ok = c.budget.take(time.Now()); !ok {
			return
		}
	}
	r, caller := made.Request, made.Caller
	method, path := audit.PrintableText(c.request.Method), audit.PrintableText(c.request.URL.Path)
	attrs := []slog.Attr{
		slog.String("function", c.function), slog.String("request_id", r.RequestID),
		slog.GroupAttrs("httpRequest",
			slog.String("requestMethod", method), slog.String("requestUrl", path),
			slog.Int("status", status), slog.Int64("responseSize", c.writer.size),
			slog.String("userAgent", r.UserAgent), slog.String("remoteIp", r.IP),
			slog.String("latency", time.Since(c.began).String())),
	}
	if caller.ID != "" {
		attrs = append(attrs, slog.String("organization_id", caller.OrganizationID),
			slog.String("caller_id", caller.ID), slog.String("caller_type", string(caller.Type)))
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int64("lines_left_out", leftOut))
	}
	if e := fault.From(c.err); e != nil {
		attrs = append(attrs, slog.String("code", e.Code))
		if level > slog.LevelInfo {
			attrs = append(attrs, slog.String("error", e.Error()))
		}
	}
	slog.LogAttrs(ctx, level, method+" "+path, attrs...)
}

// statusRecorder records the status and size of a response.
type statusRecorder struct {
	http.ResponseWriter
	// before runs before the first byte of the response.
	before func()
	status int
	size   int64
}

// WriteHeader implements http.ResponseWriter.
func (r *statusRecorder) WriteHeader(status int) {
	r.begin(status)
	r.ResponseWriter.WriteHeader(status)
}

func (r *statusRecorder) begin(status int) {
	if r.status == 0 {
		r.before()
		r.status = status
	}
}

// Write implements http.ResponseWriter.
func (r *statusRecorder) Write(b []byte) (int, error) {
	r.begin(http.StatusOK)
	n, err := r.ResponseWriter.Write(b)
	r.size += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the connection.
func (r *statusRecorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
